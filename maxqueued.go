package fairlimit

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// WithMaxQueued bounds how many permits this one [Limiter] value holds ahead. It
// counts the permits of callers that have no answer yet, of callers that sleep
// towards their turn, and of reservations whose slot is still to come. A Wait,
// WaitN or ReserveN that would bring them above n returns [ErrTooManyQueued] at
// once. It asks nothing and consumes nothing. 0, the default, means no bound.
//
// When more callers come than the quota lets go, the bound keeps one process
// from taking the whole queue, and its memory from filling with callers. It does
// not look at other processes: [WithMaxWait] bounds the queue of all. A call for
// more than n permits never fits, even if nobody waits.
//
// A reservation counts until its slot has passed or its Cancel has returned nil.
// If Cancel returned [ErrOutcomeUnknown], it counts until its slot. A caller
// that leaves counts until it returns, even if its permits are still on their
// way back. Allow and AllowN hold nothing ahead, so they are neither counted nor
// refused. On window, which grants nothing ahead, the bound is on the callers
// that wait.
func WithMaxQueued(n int) Option {
	return func(o *options) {
		if n < 0 {
			o.refuse("WithMaxQueued: %d is negative", n)
		}
		o.maxQueued = n
	}
}

// backlog counts what a limiter holds ahead. Nil counts nothing and has room
// for everything.
//
// Invariant, under mu: waiting is the sum of the permits of the callers between
// enter and leave or keep. Ahead has the reservations between keep and
// cancelled, in the order of their slots; some whose slot has passed may be
// missing. Reserved is the sum of its permits. Right after enter, waiting +
// reserved ≤ most.
//
// Slots are granted in order, but replies take different times and callers get
// theirs in any order. So keep looks for the place of each reservation.
type backlog struct {
	most int

	mu       sync.Mutex
	waiting  int
	ahead    []reserved
	reserved int
}

// reserved is a reservation as it was granted.
type reserved struct {
	*Reservation
	slot    time.Time
	permits int
}

// newBacklog makes the backlog of [WithMaxQueued], nil for 0.
func newBacklog(most int) *backlog {
	if most == 0 {
		return nil
	}
	return &backlog{most: most}
}

// enter counts n permits, or returns [ErrTooManyQueued].
func (b *backlog) enter(n int) error {
	if b == nil {
		return nil
	}
	if n > b.most {
		return fmt.Errorf("%w: %d asked for, at most %d are allowed", ErrTooManyQueued, n, b.most)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropPassed(time.Now())
	if held := b.waiting + b.reserved; n > b.most-held {
		return fmt.Errorf("%w: %d asked for, %d of %d are held", ErrTooManyQueued, n, held, b.most)
	}
	b.waiting += n
	return nil
}

// leave ends what enter began.
func (b *backlog) leave(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting -= n
}

// keep ends what enter began, and counts the reservation instead.
func (b *backlog) keep(r *Reservation, slot time.Time, n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting -= n
	b.reserved += n
	at, _ := b.find(slot)
	b.ahead = slices.Insert(b.ahead, at, reserved{r, slot, n})
}

// waits counts a reservation as a caller that waits, until it leaves.
func (b *backlog) waits(r *Reservation) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(r)
	b.waiting += r.reply.Grant.N
}

// cancelled ends what keep began.
func (b *backlog) cancelled(r *Reservation) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(r)
}

// remove, under mu, drops one whose slot may have come.
func (b *backlog) remove(r *Reservation) {
	for at, found := b.find(r.reply.Slot()); found && at < len(b.ahead); at++ {
		if b.ahead[at].Reservation == r {
			b.drop(at, at+1)
			return
		}
	}
}

// dropPassed, under mu, drops the reservations whose slot has come.
func (b *backlog) dropPassed(now time.Time) {
	passed, _ := b.find(now.Add(1))
	b.drop(0, passed)
}

// find, under mu, is where the first reservation stands whose slot is not
// before t, and whether it is t.
func (b *backlog) find(t time.Time) (int, bool) {
	bySlot := func(r reserved, t time.Time) int { return r.slot.Compare(t) }
	return slices.BinarySearchFunc(b.ahead, t, bySlot)
}

func (b *backlog) drop(from, to int) {
	for _, r := range b.ahead[from:to] {
		b.reserved -= r.permits
	}
	b.ahead = slices.Delete(b.ahead, from, to)
}
