package model

import (
	"sort"

	"github.com/fairlimit/fairlimit/internal/grid"
)

// Queue is the bounded state: what the script keeps in Redis between two calls.
type Queue struct {
	clock
	lost int64 // what was lost, up to this slot, counts as full; 0 if nothing was
	logs []*windowLog
}

// NewQueue makes an empty queue.
func NewQueue(windows []Window) *Queue {
	q, plain := &Queue{}, grid.Plain(windows)
	pace := grid.PaceOf(plain)
	for i, g := range grid.Of(plain) {
		q.logs = append(q.logs, &windowLog{
			Window: windows[i], grid: g, interval: pace.Length, burst: int64(pace.Permits),
		})
	}
	return q
}

// Earliest is the slot that n permits get at a moment.
func (q *Queue) Earliest(now int64, n int) int64 {
	q.advance(now)
	slot := max(q.now, q.tail())
	for _, l := range q.logs {
		if q.lost > 0 {
			slot = max(slot, q.lost+l.Length)
		}
		slot = max(slot, l.free(n))
	}
	return slot
}

// Take grants n permits at their earliest slot, unless it is more than longest
// away. It returns the slot in either case.
func (q *Queue) Take(now int64, n int, longest int64) (slot int64, granted bool) {
	slot = q.Run(now, Request{n, longest})[0]
	return slot, q.Wait(slot) <= longest
}

// Request is one for N permits at a slot that is at most Longest away.
type Request struct {
	N       int
	Longest int64
}

// Run is one run of the script: it answers requests in order, as many calls of
// Take do. But equal ones that get one slot are granted together, and only then
// are the logs compacted.
func (q *Queue) Run(now int64, requests ...Request) (slots []int64) {
	written := false
	for len(slots) < len(requests) {
		r := requests[len(slots)]
		slot := q.Earliest(now, r.N)
		if q.Wait(slot) > r.Longest {
			slots = append(slots, slot)
			continue
		}
		for together := true; together; together = len(slots) < len(requests) && requests[len(slots)] == r &&
			q.Earliest(now, r.N) == slot {
			for _, l := range q.logs {
				l.add(q.now, slot, r.N)
			}
			slots = append(slots, slot)
		}
		q.compact(slot)
		written = true
	}
	if written {
		q.write()
	}
	return slots
}

// compact makes room in the logs that are full.
func (q *Queue) compact(tail int64) {
	for _, l := range q.logs {
		if l.full() {
			l.compact(q.now, tail)
		}
	}
}

func (q *Queue) write() {
	for _, l := range q.logs {
		l.write()
	}
}

// advance lets the time pass that has. Where nothing counts any more, a clock
// that pauses have left behind catches up with the server's.
func (q *Queue) advance(server int64) {
	q.set(server)
	q.expire()
	if q.offset < 0 && q.rest == 0 && q.slowUntil == 0 && q.empty() {
		q.now, q.offset = server, 0
	}
}

func (q *Queue) empty() bool {
	for _, l := range q.logs {
		if len(l.cells) > 0 {
			return false
		}
	}
	return q.lost == 0
}

func (q *Queue) expire() {
	gone := q.lost > 0
	for _, l := range q.logs {
		l.expire(q.now)
		gone = gone && q.lost+l.Length <= q.now
	}
	if gone {
		q.lost = 0
	}
}

// tail is FIFO's: no later turn may come before it. Each log's newest cell
// stands at or after the newest slot still held, so the smallest is the
// tightest.
func (q *Queue) tail() int64 {
	tail := q.logs[0].last()
	for _, l := range q.logs {
		tail = min(tail, l.last())
	}
	return tail
}

// windowLog is what the queue knows of one window. Its cells reach back from
// the newest slot for at least the window's length, as far as anything is held
// there; what lies further back matters only when the queue is cancelled back
// to it, and is in the histogram.
type windowLog struct {
	Window
	grid            grid.Grid
	interval, burst int64 // the pace: a burst within an interval at most; an interval of 0 tells nothing

	behind histogram
	base   cell // what is not among the cells: it has left the window, or is in the histogram
	cells  []cell

	crowded int64 // until this slot cells of the grid are shared, 0 if they are not
	moments int   // distinct slots of this length so far

	// What the script does depends on what it wrote: see text.go.
	written width
	fresh   int  // cells behind the newest that were not written yet
	grew    bool // whether this run gave it a cell, or made the newest a longer row
}

// cell stands for the permits between the cell before and itself. All count as
// if they stood at its slot, the last of theirs, but for what the pace tells of
// them.
type cell struct {
	slot  int64 // of its last permit, or later
	total int64 // permits up to and with this cell
}

// spacing is how far each permit is from the next at least, 0 if they may stand
// together.
func (l *windowLog) spacing() int64 {
	if l.burst == 1 {
		return l.interval
	}
	return 0
}

func (l *windowLog) total() int64 {
	if len(l.cells) == 0 {
		return l.base.total
	}
	return l.cells[len(l.cells)-1].total
}

func (l *windowLog) last() int64 {
	if len(l.cells) == 0 {
		return 0
	}
	return l.cells[len(l.cells)-1].slot
}

// before is the running total before the cell.
func (l *windowLog) before(i int) int64 {
	if i == 0 {
		return l.base.total
	}
	return l.cells[i-1].total
}

// free is the moment from which n permits have room, 0 if they have it always.
func (l *windowLog) free(n int) int64 {
	need := l.total() + int64(n) - int64(l.Permits)
	if need <= l.base.total {
		return 0
	}
	c := l.cells[sort.Search(len(l.cells), func(i int) bool { return l.cells[i].total >= need })]
	return c.slot - (c.total-need)/l.burst*l.interval + l.Length
}

// add notes permits at a slot that is no earlier than the last.
func (l *windowLog) add(now, slot int64, n int) {
	k, total := len(l.cells), l.total()+int64(n)
	switch {
	case k == 0: // a window that has become empty is not crowded any more
		l.crowded, l.moments = 0, 0
	case slot <= l.last() || l.extends(now, slot, n):
		l.cells[k-1] = cell{max(slot, l.last()), total}
		return
	default:
		l.fresh++
	}
	l.cells = append(l.cells, cell{slot, total})
}

// extends reports whether the newest cell can stand for a later slot as well:
// as a row of single permits one spacing apart, of which the pace knows where
// each of them stands, or in a crowded window for all of its cell of the grid,
// once its own slot has come so that nobody gives it back.
func (l *windowLog) extends(now, slot int64, n int) bool {
	last := l.last()
	if slot < l.crowded {
		l.moments++
		if last <= now && l.grid.Cell(last) == l.grid.Cell(slot) {
			return true
		}
		l.grew = true
		return false
	}
	l.grew = true
	if l.crowded > 0 {
		if l.moments > mostMoments {
			l.crowded = slot + l.Length
		} else {
			l.crowded = 0
		}
		l.moments = 1
		return false
	}
	return n == 1 && l.spacing() > 0 && slot == last+l.spacing()
}

// expire drops what has left the window.
func (l *windowLog) expire(now int64) {
	gone := 0
	for gone < len(l.cells) && l.cells[gone].slot+l.Length <= now {
		gone++
	}
	if gone > 0 {
		l.base = l.cells[gone-1]
		l.cells = l.cells[gone:]
		l.behind.counts = nil
	}
	if len(l.cells) == 0 {
		l.fresh = 0
	}
}
