package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
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
	err = q.fallback.reserve(ctx, func() (err error) {
		reservation, err = q.reserveTurn(ctx, n, amounts, time.Time{})
		return err
	})
	q.trace.refused(n, err)
	return reservation, q.named(err)
}

// reserveTurn takes a turn that comes by the deadline, if there is one.
func (l *limiter) reserveTurn(
	ctx context.Context, n int, amounts engine.Amounts, deadline time.Time,
) (*Reservation, error) {
	if err := l.backlog.enter(n); err != nil {
		return nil, err
	}
	w := l.newWait(ctx, n, amounts, l.maxWait)
	w.Deadline = deadline
	if err := l.reserve(w); err != nil {
		l.backlog.leave(n)
		return nil, err
	}
	answer := *w.Reply.Answer // its array holds the answers of others
	w.Reply.Answer = &answer
	r := &Reservation{limiter: l, wait: w, slot: w.Reply.Slot(), busy: make(chan struct{}, 1)}
	w.reservation = r
	r.stands, r.end = context.WithCancel(context.Background())
	r.count()
	l.trace.reserved(n, r.slot)
	return r, nil
}

// count has a reservation count until its slot: for [WithMaxQueued], which has
// entered it, and for the share of its flow.
func (r *Reservation) count() {
	if !r.limiter.counts() {
		return
	}
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

// counts reports whether anything counts what the limiter holds ahead.
func (l *limiter) counts() bool { return l.backlog != nil || l.line != nil }

// uncount ends what count began, if the slot has not ended it.
func (r *Reservation) uncount() {
	if r.timer != nil && r.timer.Stop() {
		r.leave()
	}
}

// countAgain counts a reservation as a caller that waits, beyond its slot.
func (r *Reservation) countAgain() {
	if l := r.limiter; l.counts() && (r.timer == nil || !r.timer.Stop()) {
		l.backlog.leave(-r.wait.N)
		l.passed(-r.wait.Cost)
	}
}

// Reservation is a turn that ReserveN granted. Several goroutines may use it at
// once.
type Reservation struct {
	limiter *limiter
	wait    *wait              // the call that was granted it, and goes on with Wait
	busy    chan struct{}      // a lock that a ctx can leave: whoever puts one in may change what follows
	timer   *time.Timer        // at whose end the reservation counts no longer; nil if it does not count
	over    bool               // it was taken or given back
	turn    *Turn              // that was taken or is settled, nil before
	stands  context.Context    // ended by the first Cancel, and with it the Wait that is under way
	end     context.CancelFunc // ends stands

	mu   sync.Mutex // guards what follows for those who only read
	slot time.Time
}

// Delay is how long it is until the turn, and 0 once it is due. It goes by the
// answer that granted the turn, or by the newest one if Wait has lined up again.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.Slot())) }

// Slot is when the turn is due, on this process's clock. The time carries a
// monotonic reading.
func (r *Reservation) Slot() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slot
}

// Wait sleeps until the turn has come, as Wait of a [Limiter] does: it hears of a
// pause, a reset and a narrower quota, and does not take a turn that it missed.
// A turn that comes after ctx's deadline is refused. If Wait returns an error,
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
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	if r.over || r.stands.Err() != nil {
		return ErrReservationOver
	}
	r.over = true
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(r.stands, func() { stop(ErrReservationOver) })()
	t := r.limiter.trace
	t.unreserved(r.wait.N, r.Slot())
	return t.waits(r.wait.N, func() error { return r.waitOut(ctx) })
}

// waitOut is Wait with the lock held.
func (r *Reservation) waitOut(ctx context.Context) error {
	l, w := r.limiter, r.wait
	r.countAgain()
	w.Ctx = ctx
	w.Deadline, _ = ctx.Deadline()
	err := l.waitOut(w)
	if err == nil {
		r.turn = &Turn{limiter: l, grant: *w.taken}
	}
	l.backlog.leave(w.N)
	return err
}

// keep remembers the slot of a turn that a Wait was granted in place of another.
// Nil is no reservation.
func (r *Reservation) keep(slot time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slot = slot
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
	return r.limiter.named(r.giveBack(ctx, false))
}

// giveBack is Cancel. A turn whose slot has come goes back as well if it is known
// to be unused.
func (r *Reservation) giveBack(ctx context.Context, unused bool) error {
	if err := ready(ctx, "nothing was given back"); err != nil {
		return err
	}
	r.end()
	if err := r.lock(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	defer r.unlock()
	if r.over || !unused && !r.isOurs() {
		return nil
	}
	grant := r.wait.Reply.Grant
	grant.Unused = unused || r.wait.Reply.Wait <= 0
	err := r.limiter.asker.Return(ctx, grant)
	r.over = err == nil || errors.Is(err, ErrOutcomeUnknown)
	if err == nil {
		r.uncount()
		r.limiter.trace.unreserved(grant.N, r.Slot())
	}
	return err
}

// isOurs reports whether the permits can be given back: the slot lies ahead, or
// it was due at once and nobody has gone with it.
func (r *Reservation) isOurs() bool {
	ahead := time.Until(r.Slot())
	return ahead > 0 || r.wait.Reply.Wait <= 0 && ahead > -cancelBound
}

func (r *Reservation) lock(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctxerr.Ended(ctx, "another call of the reservation is under way")
	}
}

func (r *Reservation) unlock() { <-r.busy }
