// Package model is the definition of engine fair in plain Go: what its scripts
// are held against. It models no bytes.
//
// [Exact] is the rule by brute force: it keeps every permit. [Clock] is the
// queue's clock, and [Flows] how a look-ahead is shared. All times are integers
// of microseconds.
package model

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
)

// Window is at most Permits in any half-open stretch of Length microseconds.
type Window struct {
	Permits int
	Length  int64
}

// Turn is N permits at a slot.
type Turn struct {
	Slot int64
	N    int
}

// Windows are those of one quota: its own, and one for a Burst that is less
// than its permits. The burst's is rounded down: the quota's own keeps the
// total exact.
func Windows(permits int, per int64, burst int) []Window {
	all := []Window{{permits, per}}
	if burst > 0 && burst < permits {
		all = append(all, Window{burst, scale(per, int64(burst), int64(permits))})
	}
	return all
}

// Earliest is the definition. Slots s₁ ≤ s₂ ≤ … are held; n permits get the
// smallest x ≥ the last of them such that in every window (x−Length, x] the
// permits with slots there plus n are at most its Permits. The moment of asking
// does not matter: who asks later than x gets that moment.
func Earliest(windows []Window, held []Turn, n int) (x int64) {
	if len(held) > 0 {
		x = held[len(held)-1].Slot
	}
	return max(x, Room(windows, held, n))
}

// Room is the moment from which windows have room for n permits behind those
// that are held, 0 if they always have. This is what a ceiling is: windows that
// count the turns of one flow. A request of the flow goes where the queue and its
// ceiling have room. If its ceiling has none at the queue's slot, it takes none.
func Room(windows []Window, held []Turn, n int) (from int64) {
	for _, w := range windows {
		from = max(from, w.Free(held, n))
	}
	return from
}

// Evenly is when a request goes at the earliest beside other flows: for each of
// its permits a pace of the shortest window after the newest turn.
func Evenly(windows []Window, held []Turn, n int) int64 {
	if len(held) == 0 {
		return 0
	}
	shortest := windows[len(windows)-1]
	return held[len(held)-1].Slot + shortest.Length/int64(shortest.Permits)*int64(n)
}

// Free is the moment from which the window alone has room for n permits, 0 if
// it always has.
func (w Window) Free(held []Turn, n int) int64 {
	for i := len(held) - 1; i >= 0; i-- {
		if n += held[i].N; n > w.Permits {
			return held[i].Slot + w.Length
		}
	}
	return 0
}

// Exact keeps every permit.
type Exact struct {
	Windows []Window
	Held    []Turn // in the order of their slots
}

// Earliest is the slot that n permits get at a moment.
func (e *Exact) Earliest(now int64, n int) int64 {
	return max(now, Earliest(e.Windows, e.Held, n))
}

// Take holds n permits at their earliest slot, unless it is more than longest
// away. It returns the slot in either case.
func (e *Exact) Take(now int64, n int, longest int64) (slot int64, granted bool) {
	slot = e.Earliest(now, n)
	if slot-now > longest {
		return slot, false
	}
	e.Held = append(e.Held, Turn{slot, n})
	return slot, true
}

// Hold notes a turn that another granted. It panics if it overtakes one that is
// held.
func (e *Exact) Hold(t Turn) {
	if k := len(e.Held); k > 0 && e.Held[k-1].Slot > t.Slot {
		panic(fmt.Sprintf("model: slot %d is before %d", t.Slot, e.Held[k-1].Slot))
	}
	e.Held = append(e.Held, t)
}

// Release gives back a turn that lies ahead. It reports whether it was held.
func (e *Exact) Release(now int64, t Turn) bool {
	i := sort.Search(len(e.Held), func(i int) bool { return e.Held[i].Slot >= t.Slot })
	for ; i < len(e.Held) && e.Held[i].Slot == t.Slot; i++ {
		if e.Held[i].N == t.N && t.Slot > now {
			e.Held = slices.Delete(e.Held, i, i+1)
			return true
		}
	}
	return false
}

// Forget drops what has left every window, and returns it.
func (e *Exact) Forget(now int64) []Turn {
	longest, passed := Longest(e.Windows), 0
	for passed < len(e.Held) && e.Held[passed].Slot+longest <= now {
		passed++
	}
	gone := e.Held[:passed]
	e.Held = e.Held[passed:]
	return gone
}

// Longest is the length of the longest window.
func Longest(windows []Window) (length int64) {
	for _, w := range windows {
		length = max(length, w.Length)
	}
	return length
}

// Overfull calls f for every window (s−Length, s] that ends with a turn and
// holds more than its permits: its turns are those from first to last. The
// turns are in the order of their slots.
func (w Window) Overfull(turns []Turn, f func(first, last int)) {
	first, inside := 0, 0
	for i, t := range turns {
		for inside += t.N; turns[first].Slot <= t.Slot-w.Length; first++ {
			inside -= turns[first].N
		}
		if whole := i+1 == len(turns) || turns[i+1].Slot > t.Slot; whole && inside > w.Permits {
			f(first, i)
		}
	}
}

// Strict tells which window the turns exceed, if any.
func Strict(windows []Window, turns []Turn) (err error) {
	for _, w := range windows {
		w.Overfull(turns, func(first, last int) {
			if err == nil {
				err = fmt.Errorf("model: more than %d permits within %d µs up to slot %d",
					w.Permits, w.Length, turns[last].Slot)
			}
		})
	}
	return err
}

// scale is a*b/c rounded down, for a product of any size.
func scale(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(high, low, uint64(c))
	return int64(q)
}
