// Package model is the definition of engine fair by brute force: what its scripts
// are held against. It has one clock, and one log that keeps every permit.
//
// Times are microseconds. A slot is a label on the queue's clock, as in package
// fair.
package model

import (
	"fmt"
	"math/bits"
	"slices"
)

// Window is at most Permits in any half-open stretch of Length.
type Window struct {
	Permits int
	Length  int64
}

// Windows are the window of a quota, and that of a Burst below its permits.
func Windows(permits int, per int64, burst int) []Window {
	all := []Window{{permits, per}}
	if burst > 0 && burst < permits {
		high, low := bits.Mul64(uint64(per), uint64(burst))
		length, rest := bits.Div64(high, low, uint64(permits))
		if rest > 0 {
			length++
		}
		all = append(all, Window{burst, int64(length)})
	}
	return all
}

// Queue grants turns. The zero value with Units set is an empty queue.
type Queue struct {
	Units [][]Window // the windows of calls, and of each further unit

	slots  [][]int64 // for each unit, where its permits count, in order
	from   int64     // the clock shows nothing before
	offset int64     // server's time less the clock
}

// Clock is what the queue's clock shows.
func (q *Queue) Clock(now int64) int64 { return max(now-q.offset, q.from) }

// Comes is when a slot comes.
func (q *Queue) Comes(slot int64) int64 { return slot + q.offset }

// Pause lets the clock stand still until a moment, or longer if it does already.
func (q *Queue) Pause(now, until int64) {
	if until > max(now, q.Comes(q.from)) {
		q.from = q.Clock(now)
		q.offset = until - q.from
	}
}

// Resume lets the clock go on from where it stands.
func (q *Queue) Resume(now int64) {
	if q.Comes(q.from) > now {
		q.offset = now - q.from
	}
}

// Slots are where the permits of a unit count, in order.
func (q *Queue) Slots(unit int) []int64 {
	if q.slots == nil {
		q.slots = make([][]int64, len(q.Units))
	}
	return q.slots[unit]
}

// Tail is the newest slot, 0 for none.
func (q *Queue) Tail() (tail int64) {
	for u := range q.Units {
		if slots := q.Slots(u); len(slots) > 0 {
			tail = max(tail, slots[len(slots)-1])
		}
	}
	return tail
}

// Earliest is the rule: the first slot from the tail on, and not in the past, at
// which n[u] permits of each unit u exceed none of its windows.
func (q *Queue) Earliest(now int64, n ...int) int64 {
	slot := max(q.Tail(), q.Clock(now))
	for u, windows := range q.Units {
		for _, w := range windows {
			// The newest w.Permits fit one window, with these n among them.
			if leaves := len(q.Slots(u)) + n[u] - w.Permits; n[u] > 0 && leaves > 0 {
				slot = max(slot, q.Slots(u)[leaves-1]+w.Length)
			}
		}
	}
	return slot
}

// Take grants n permits at their earliest slot, unless it comes later than longest
// from now. It returns the slot in either case.
func (q *Queue) Take(now, longest int64, n ...int) (slot int64, granted bool) {
	slot = q.Earliest(now, n...)
	if q.Comes(slot)-now > longest {
		return slot, false
	}
	q.book(slot, n)
	return slot, true
}

func (q *Queue) book(slot int64, n []int) {
	for u := range q.Units {
		q.slots[u] = append(q.Slots(u), slices.Repeat([]int64{slot}, n[u])...)
	}
}

// GiveBack lets n permits of a slot count no more. Nobody's slot moves.
func (q *Queue) GiveBack(slot int64, n ...int) {
	for u := range q.Units {
		first, _ := slices.BinarySearch(q.Slots(u), slot)
		behind, _ := slices.BinarySearch(q.slots[u], slot+1)
		q.slots[u] = slices.Delete(q.slots[u], first, min(first+n[u], behind))
	}
}

// Reset forgets what was granted.
func (q *Queue) Reset() { q.slots = nil }

// Owe lets n more permits count, at the tail.
func (q *Queue) Owe(n ...int) { q.book(q.Tail(), n) }

// Strict returns an error if a window holds more slots than its permits. The
// slots are in order.
func Strict(windows []Window, slots []int64) error {
	for _, w := range windows {
		if most := Fullest(w.Length, slots); most > w.Permits {
			return fmt.Errorf("model: %d permits within %d µs, at most %d may be", most, w.Length, w.Permits)
		}
	}
	return nil
}

// Fullest is how many slots the fullest window of a length holds.
func Fullest(length int64, slots []int64) (most int) {
	for first, i := 0, 0; i < len(slots); i++ {
		for slots[i]-slots[first] >= length {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
