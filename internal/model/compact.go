package model

import "slices"

const (
	// mostMoments is how many distinct slots of one length a log keeps apart.
	// It serves promise 3: "only after more than 130 distinct moments within
	// one window".
	mostMoments = 130

	// maxCells are those and a spare, so that a saturated window compacts once
	// in 30 new slots and not at each: promise 6, the script's time.
	maxCells = mostMoments + spare
	spare    = 30

	// leastSpare is that of a log whose bytes are short. Its cells are wide: they
	// stand for many permits in a long window. Room for 30 of them would leave
	// few buckets to the histogram, or a single one, and promise 7 needs
	// leastBuckets: "at most 1 % of the backlog".
	leastSpare = 5

	leastBuckets = 100
)

// compact makes room. Cells that no longer hold back the next turn go to the
// histogram. Of the others those merge that share a cell of the grid, but only
// if there are more than a log keeps apart. Where none merges, those that stay
// are still as they were written.
func (l *windowLog) compact(now, tail int64) {
	l.fold(now, tail)
	crowded := l.crowded > tail
	if len(l.cells) > mostMoments || crowded {
		l.merge()
		if !crowded {
			l.crowded, l.moments = tail+l.Length, 0
		}
		l.written = width{}
	}
	if l.fresh >= len(l.cells) { // some of those that folded were never written
		l.written = width{}
	}
	for len(l.behind.counts) > 1 && l.over(min(maxCells, len(l.cells)+l.spareCells())) {
		l.behind.coarsen()
	}
}

// spareCells is for how many cells to come there is to be room: fewer where
// joining two buckets each would leave too few of them.
func (l *windowLog) spareCells() int {
	if len(l.behind.counts) <= 2*leastBuckets {
		return leastSpare
	}
	return spare
}

// merge joins the cells that share one of the grid's.
func (l *windowLog) merge() {
	out := l.cells[:0]
	for _, c := range l.cells {
		if k := len(out); k > 0 && l.grid.Cell(out[k-1].slot) == l.grid.Cell(c.slot) {
			out[k-1] = c
		} else {
			out = append(out, c)
		}
	}
	l.cells = out
}

// fold moves the cells that are a length or more behind the tail to the
// histogram. What has passed leaves that before, so that nothing coarsens for
// its sake: promise 7 is about the backlog, and what has passed is none of it.
func (l *windowLog) fold(now, tail int64) {
	l.behind.trim(now - l.Length)
	gone := 0
	for ; gone < len(l.cells) && l.cells[gone].slot+l.Length <= tail; gone++ {
		l.spread(now, l.cells[gone].slot, l.cells[gone].total-l.before(gone))
	}
	if gone > 0 {
		l.base, l.cells = l.cells[gone-1], l.cells[gone:]
	}
}

// spread counts the permits of a cell in the histogram, those of a row each at
// its slot.
func (l *windowLog) spread(now, slot, n int64) {
	h := &l.behind
	if l.Permits == 1 {
		h.lattice(l.Length, slot)
	} else if len(h.counts) == 0 {
		h.reset(l.grid)
	}
	if l.spacing() == 0 {
		h.makeRoom(slot, slot, 0)
		h.add(slot, n)
		return
	}
	first := slot - (n-1)*l.interval
	if passed := now - l.Length - first; passed > 0 {
		first += ceilDiv(passed, l.interval) * l.interval
	}
	if first > slot {
		return
	}
	h.makeRoom(first, slot, l.interval)
	for first <= slot {
		here := (min(slot, h.end(h.bucket(first)))-first)/l.interval + 1
		h.add(first, here)
		first += here * l.interval
	}
}

// unfold makes cells again of the buckets that are less than a length behind
// the tail, for a cancel may have brought it back. If there are no cells, the
// newest bucket becomes one in any case: it is the tail.
func (l *windowLog) unfold(tail int64) {
	h := &l.behind
	for len(h.counts) > 0 {
		newest := len(h.counts) - 1
		bucket, n := h.first+int64(newest), h.counts[newest]
		if n > 0 {
			slot := min(h.end(bucket), l.base.slot)
			if len(l.cells) > 0 && slot+l.Length <= tail {
				return
			}
			l.cells = slices.Insert(l.cells, 0, cell{slot, l.base.total})
		}
		l.base = cell{h.end(bucket - 1), l.base.total - n}
		h.counts = h.counts[:newest]
	}
	l.base.slot = 0 // nothing is left there, and new cells may be earlier than it was
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
