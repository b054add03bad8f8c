package fairlimit

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// WithMaxQueued bounds how many permits this one [Limiter] value holds ahead: those of callers that have no answer yet, those of callers that sleep
// towards their turn, and those of reservations whose slot is still to come. A Wait, WaitN or ReserveN that would make them more than n returns
// [ErrTooManyQueued] at once; nothing was asked and nothing was consumed. 0, the default, is no bound, and costs nothing.
//
// It keeps one process from taking the whole queue, or its memory from filling with callers, where more come than the quota lets go. It does not
// look at other processes; [WithMaxWait] bounds the queue of all. More than n permits in one call never fit, even when nobody waits.
//
// A reservation counts until its slot has passed or its Cancel has returned nil, and one whose Cancel returned [ErrOutcomeUnknown], until its slot. A
// caller that leaves counts until it returns, even if its permits are still on their way back. Allow and AllowN hold nothing ahead: they are not
// counted and not bound. On window, which grants nothing ahead, it bounds those who wait.
func WithMaxQueued(n int) Option {
	return func(o *options) error {
		if n < 0 {
			return fmt.Errorf("%w: WithMaxQueued: %d is negative", ErrInvalidOption, n)
		}
		o.held = nil
		if n > 0 {
			o.held = &held{most: n}
		}
		return nil
	}
}

// held counts what a limiter holds ahead. Nil counts nothing and has room for everything.
//
// Invariant, under mu: waiting is the sum of the permits of the callers between enter and leave or keep. ahead has each reservation between keep and
// cancelled, but for some whose slot has passed, in the order of their slots, and reserved is the sum of its permits. Whoever enters leaves
// waiting + reserved ≤ most.
//
// The order is looked after: slots are granted in order, but replies take different times, and callers get their replies in any order.
type held struct {
	most int

	mu       sync.Mutex
	waiting  int
	ahead    []*Reservation
	reserved int
}

func (h *held) enter(n int) error {
	if h == nil {
		return nil
	}
	if n > h.most {
		return fmt.Errorf("%w: %d asked for, at most %d are allowed", ErrTooManyQueued, n, h.most)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pass(time.Now())
	if held := h.waiting + h.reserved; n > h.most-held {
		return fmt.Errorf("%w: %d asked for, %d of %d are held", ErrTooManyQueued, n, held, h.most)
	}
	h.waiting += n
	return nil
}

func (h *held) leave(n int) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting -= n
}

// keep makes a reservation of what waited.
func (h *held) keep(r *Reservation) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting -= r.turn.grant.N
	h.reserved += r.turn.grant.N
	at, _ := h.find(r.turn.slot)
	h.ahead = slices.Insert(h.ahead, at, r)
}

func (h *held) cancelled(r *Reservation) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, found := h.find(r.turn.slot); found && at < len(h.ahead); at++ {
		if h.ahead[at] == r {
			h.drop(at, at+1)
			return
		}
	}
}

// pass drops those whose slot has come.
func (h *held) pass(now time.Time) {
	passed, _ := h.find(now.Add(1))
	h.drop(0, passed)
}

// find is where the first is whose slot is not before t, and whether it is t.
func (h *held) find(t time.Time) (int, bool) {
	return slices.BinarySearchFunc(h.ahead, t, func(r *Reservation, t time.Time) int { return r.turn.slot.Compare(t) })
}

func (h *held) drop(from, to int) {
	for _, r := range h.ahead[from:to] {
		h.reserved -= r.turn.grant.N
	}
	h.ahead = slices.Delete(h.ahead, from, to)
}
