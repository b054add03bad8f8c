package fairlimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// cancelBound is for how long a reservation that was due at once can be given
// back.
const cancelBound = 250 * time.Millisecond

// Reserver is a [Limiter] that can also reserve turns. A [Queue] is one; a
// limiter on window is not.
type Reserver interface {
	Limiter

	// ReserveN takes the next turn for n ≥ 1 permits and returns at once. The
	// caller then waits for the turn, with [Reservation.Wait] or by a sleep of
	// its own, or cancels it. Ctx bounds the call, not the turn. A turn further
	// ahead than [WithMaxWait] is refused with a [*RefusedError].
	//
	// With a flow, only callers within the look-ahead have a turn: see
	// [WithFlow]. So ReserveN waits in line until there is room.
	ReserveN(ctx context.Context, n int) (*Reservation, error)
}

// ReserveN takes the next turn for n ≥ 1 permits and returns at once, unless it
// stands in the line of a flow: see [Reserver].
func (q *Queue) ReserveN(ctx context.Context, n int) (*Reservation, error) {
	if err := q.check(ctx, n); err != nil {
		return nil, q.named(err)
	}
	return q.reserveFitting(ctx, n, "")
}

// reserveFitting is ReserveN for amounts that fit.
func (q *Queue) reserveFitting(
	ctx context.Context, n int, amounts engine.Amounts,
) (reservation *Reservation, err error) {
	_, err = q.fallback.ask(ctx, func() (err error) { // a fallback reserves nothing
		reservation, err = q.reserveTurn(ctx, n, amounts)
		return err
	})
	q.trace.refused(n, err)
	return reservation, q.named(err)
}

// reserveTurn takes a turn, whenever it comes.
func (l *limiter) reserveTurn(ctx context.Context, n int, amounts engine.Amounts) (*Reservation, error) {
	if err := l.backlog.enter(n); err != nil {
		return nil, err
	}
	w := l.newWait(ctx, n, amounts, l.maxWait)
	if err := l.reserve(w); err != nil {
		l.backlog.leave(n)
		return nil, err
	}
	r := &Reservation{limiter: l, wait: w, slot: w.Reply.Slot()}
	r.stands, r.end = context.WithCancel(context.Background())
	r.count()
	tell(l.trace.Reserved, n, r.slot)
	return r, nil
}

// count has a reservation count until its slot: for [WithMaxQueued], which has
// entered it, and for the share of its flow.
func (r *Reservation) count() {
	if d := r.Delay(); d > 0 {
		r.timer = time.AfterFunc(d, r.leave)
	} else {
		r.leave()
	}
}

// leave ends what counts a reservation.
func (r *Reservation) leave() {
	r.limiter.backlog.leave(r.wait.N)
	r.limiter.passed(r.wait.Cost)
}

// stops ends what count began. It reports whether the slot has not ended it.
func (r *Reservation) stops() bool { return r.timer != nil && r.timer.Stop() }

// Reservation is a turn that ReserveN granted. Several goroutines may use it at
// once.
type Reservation struct {
	limiter *limiter
	wait    *wait // the call that was granted it; of the Wait once that has begun
	slot    time.Time
	timer   *time.Timer        // at whose end the reservation counts no longer; nil if it does not count
	stands  context.Context    // ended by the first Cancel, and with it the Wait that is under way
	end     context.CancelFunc // ends stands

	mu    sync.Mutex
	over  bool  // it was waited for, taken or given back
	waits bool  // a Wait is under way
	turn  *Turn // that was taken or is settled, nil before
}

// Delay is how long it is until the turn, and 0 once it is due.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.slot)) }

// Slot is when the turn is due, on this process's clock. The time carries a
// monotonic reading. It is later than the turn by what Redis's answer took on
// its way back: Wait gives back a turn that this makes too late, and a program
// that sleeps by itself does not. If Wait takes another turn in its place, Slot
// stays.
func (r *Reservation) Slot() time.Time { return r.slot }

// Wait sleeps until the turn has come, as Wait of a [Limiter] does: it hears of a
// pause, a reset and a narrower quota, and does not take a turn that it missed. To
// hear in time, call it half of [WithPauseWithin] before the slot, or sooner.
// A turn that comes after ctx's deadline is refused, and one that a pause puts off
// for longer than [WithMaxWait] allows since ReserveN. If Wait returns an error,
// the permits are given back. The reservation is then over, as it is after a
// turn was taken and after Cancel: another Wait returns [ErrReservationOver]. If
// ctx has ended before Wait begins, nothing happens and the reservation stands.
//
// A Cancel ends a Wait that is under way. The error of Wait then matches
// [ErrReservationOver] as well.
func (r *Reservation) Wait(ctx context.Context) error {
	return r.limiter.named(r.waitOnce(ctx))
}

func (r *Reservation) waitOnce(ctx context.Context) error {
	if err := ready(ctx, "the reservation still stands"); err != nil {
		return err
	}
	if !r.begins(r.mayWait) {
		return ErrReservationOver
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(r.stands, func() { stop(ErrReservationOver) })()
	t := r.limiter.trace
	tell(t.Unreserved, r.wait.N, r.slot)
	return t.waits(r.wait.N, func() error { return r.waitOut(ctx) })
}

// mayWait, under mu, lets a Wait begin that no Cancel has called off.
func (r *Reservation) mayWait() bool {
	r.waits = r.stands.Err() == nil
	return r.waits
}

// begins makes the reservation over, unless it was before, or may not be.
func (r *Reservation) begins(may func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || !may() {
		return false
	}
	r.over = true
	return true
}

// waitOut waits as a caller that counts, also beyond its slot.
func (r *Reservation) waitOut(ctx context.Context) error {
	l, w := r.limiter, r.wait
	if !r.stops() {
		l.backlog.leave(-w.N)
		l.passed(-w.Cost)
	}
	w.Ctx = ctx
	w.Deadline, _ = ctx.Deadline()
	again, err := l.sleep(w)
	if again {
		if err = l.ask(w); err == nil {
			err = l.waitOut(w)
		}
	}
	l.backlog.leave(w.N)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = false
	if err == nil {
		r.turn = &w.turn
	}
	return orUnknown(err, w.Lost())
}

// Cancel gives the permits back while the slot lies ahead. Everybody else keeps
// their turns. After the slot, and the second time, Cancel does nothing and
// returns nil. It ends a Wait that is under way, which gives them back as every
// caller does that leaves.
//
// A reservation that was due at once, with Delay 0, can be given back within
// 250 ms. So a caller can take permits of several limiters, all or none. Cancel
// says that nobody went with the turn: do not defer it if the turn is used.
//
// If the error matches [ErrOutcomeUnknown], the permits were given back once or
// not at all. After any other error they are still held, and Cancel may be
// called again.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.limiter.named(r.cancel(ctx))
}

func (r *Reservation) cancel(ctx context.Context) error {
	if err := ready(ctx, "nothing was given back"); err != nil {
		return err
	}
	r.end()
	if !r.begins(r.isOurs) {
		return nil
	}
	grant := r.wait.Reply.Grant
	grant.Unused = r.wait.Reply.Wait <= 0
	err := r.limiter.asker.Return(ctx, grant)
	switch {
	case err == nil:
		if r.stops() {
			r.leave()
		}
		tell(r.limiter.trace.Unreserved, grant.N, r.slot)
	case !errors.Is(err, ErrOutcomeUnknown):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.over = false
	}
	return err
}

// isOurs reports whether the permits can be given back: the slot lies ahead, or
// it was due at once and nobody has gone with it.
func (r *Reservation) isOurs() bool {
	ahead := time.Until(r.slot)
	return ahead > 0 || r.wait.Reply.Wait <= 0 && ahead > -cancelBound
}
