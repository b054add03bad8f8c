package model

import (
	"math"
	"slices"
	"sort"
)

// Release gives back a turn that lies ahead. It reports whether every window
// held it.
func (q *Queue) Release(now int64, t Turn) bool {
	q.advance(now)
	if !q.Ahead(t.Slot) {
		return false
	}
	done, tail, newest := true, max(q.now, q.tail()), int64(math.MaxInt64)
	for _, l := range q.logs {
		l.open(q.now, tail)
		done = l.remove(t) && done
		l.unfold(math.MaxInt64)
		if len(l.cells) > 0 {
			newest = min(newest, l.last())
		} else {
			newest = min(newest, q.now-l.Length)
		}
	}
	tail = max(q.now, q.tail())
	for _, l := range q.logs {
		l.pullForward(newest)
		l.unfold(tail)
	}
	q.compact(tail)
	q.write()
	return done
}

// pullForward: no turn that is held is later than the newest cell of any
// window. So what a window has later than that, as returns came from where it
// had been moved to, counts there.
func (l *windowLog) pullForward(newest int64) {
	newest = max(newest, l.base.slot)
	first := sort.Search(len(l.cells), func(i int) bool { return l.cells[i].slot > newest })
	if first == len(l.cells) {
		return
	}
	total := l.total()
	l.cells = l.cells[:first]
	if first > 0 && l.cells[first-1].slot == newest {
		l.cells[first-1].total = total
	} else {
		l.cells = append(l.cells, cell{newest, total})
	}
}

// open takes rows apart, so that a permit can be taken out, and has the cells
// written anew: into single permits if the log has room for them. Else what is
// behind the tail goes to the histogram, and the rest is cut at the borders of
// the grid. A cell to which permits were pulled forward can reach back behind
// the one before it: it is no row, and goes or stays as a whole.
func (l *windowLog) open(now, tail int64) {
	l.written, l.grew = width{}, true
	l.expireRow(now)
	permits := l.total() - l.base.total
	if l.spacing() == 0 || permits == int64(len(l.cells)) {
		return
	}
	if permits > maxCells {
		l.behind.trim(now - l.Length)
	}
	var open []cell
	before, total := l.base.slot, l.base.total // up to where the rows are open
	for _, row := range l.cells {
		first := row.slot - (row.total-total-1)*l.interval
		if first < before {
			if permits > maxCells && row.slot+l.Length <= tail {
				l.spread(now, row.slot, row.total-total)
				l.base = row
			} else {
				open = append(open, row)
			}
			before, total = row.slot, row.total
			continue
		}
		before = row.slot
		if behind := tail - l.Length - first; permits > maxCells && behind >= 0 {
			folded := min(row.total-total, behind/l.interval+1)
			first, total = first+folded*l.interval, total+folded
			l.spread(now, first-l.interval, folded)
			l.base = cell{first - l.interval, total}
		}
		for total < row.total {
			here := int64(1)
			if permits > maxCells {
				border := l.grid.Start(l.grid.Cell(first) + 1)
				here = min(row.total-total, (border-1-first)/l.interval+1)
			}
			first, total = first+here*l.interval, total+here
			open = append(open, cell{first - l.interval, total})
		}
	}
	l.cells = open
}

// expireRow drops what has left the window of the oldest row.
func (l *windowLog) expireRow(now int64) {
	if l.spacing() == 0 || len(l.cells) == 0 {
		return
	}
	first := l.cells[0].slot - (l.cells[0].total-l.base.total-1)*l.interval
	if first < l.base.slot {
		return // no row; see open
	}
	if gone := now - l.Length - first; gone >= 0 {
		passed := gone/l.interval + 1
		l.base = cell{first + (passed-1)*l.interval, l.base.total + passed}
		l.behind.counts = nil
	}
}

// remove takes permits out of the first bucket or cell at or after their slot
// that has as many. It is their own, or one that they were moved to: where a
// bucket became a cell, its permits stand at the bucket's end, and what folds
// from there may go to a later bucket. The cell keeps its slot, even if it was
// theirs: the safe side.
func (l *windowLog) remove(t Turn) bool {
	n, at := int64(t.N), 0
	if len(l.behind.counts) == 0 && t.Slot <= l.base.slot {
		return false // it has left the window, or was never in it
	}
	if t.Slot <= l.base.slot && l.behind.remove(t.Slot, n) {
		l.base.total -= n
	} else {
		at = sort.Search(len(l.cells), func(i int) bool { return l.cells[i].slot >= t.Slot })
		for at < len(l.cells) && l.cells[at].total-l.before(at) < n {
			at++
		}
		if at == len(l.cells) {
			return false
		}
	}
	for i := at; i < len(l.cells); i++ {
		l.cells[i].total -= n
	}
	if at < len(l.cells) && l.cells[at].total == l.before(at) {
		l.cells = slices.Delete(l.cells, at, at+1)
	}
	return true
}
