package fairlimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/internal/batch"
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
	ReserveN(ctx context.Context, n int) (*Reservation, error)
}

// ReserveN takes the next turn for n ≥ 1 permits and returns at once: see
// [Reserver].
func (q *Queue) ReserveN(ctx context.Context, n int) (reservation *Reservation, err error) {
	if err := q.check(ctx, n); err != nil {
		return nil, q.named(err)
	}
	if q.fallback == nil {
		reservation, err = q.reserveTurn(ctx, n)
	} else {
		err = q.fallback.reserve(ctx, func() (err error) {
			reservation, err = q.reserveTurn(ctx, n)
			return err
		})
	}
	q.trace.refused(n, err)
	return reservation, q.named(err)
}

func (l *limiter) reserveTurn(ctx context.Context, n int) (*Reservation, error) {
	if err := l.backlog.enter(n); err != nil {
		return nil, err
	}
	began := time.Now()
	reply, err := l.reserve(ctx, n, l.maxWait)
	if err != nil {
		l.backlog.leave(n)
		return nil, err
	}
	l.trace.granted(n, reply.Wait)
	answer := *reply.Answer // its array holds the answers of others
	reply.Answer = &answer
	r := &Reservation{limiter: l, began: began, reply: reply, busy: make(chan struct{}, 1), gone: make(chan struct{})}
	l.backlog.keep(r, reply.Slot(), n)
	r.passes(n)
	l.trace.reserved(n, reply.Slot())
	return r, nil
}

// Reservation is a turn that ReserveN granted. Several goroutines may use it at
// once.
type Reservation struct {
	limiter *limiter
	began   time.Time
	timer   *time.Timer   // of a flow: when it passes
	busy    chan struct{} // a lock that a ctx can leave: whoever puts one in may change what follows
	gone    chan struct{} // closed when it was cancelled or its Wait has ended

	mu    sync.Mutex // guards what follows for those who only read
	reply batch.Reply
	stop  context.CancelCauseFunc // ends the Wait that is under way, if there is one
}

// Delay is how long it is until the turn, and 0 once it is due. It goes by the
// answer that granted the turn, or by the newest one if Wait has lined up again.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.Slot())) }

// Slot is when the turn is due, on this process's clock. The time carries a
// monotonic reading.
func (r *Reservation) Slot() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reply.Slot()
}

// Wait sleeps until the turn has come, as Wait of a [Limiter] does: it hears of a
// pause, a reset and a narrower quota, and does not take a turn that it missed.
// A turn that comes after ctx's deadline is refused. If Wait returns an error,
// the permits are given back. The reservation is then over, as it is after a
// turn was taken and after Cancel: another Wait returns [ErrReservationOver]. If
// ctx has ended before Wait begins, nothing happens and the reservation stands.
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
	if r.over() {
		return ErrReservationOver
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	r.stop = stop
	r.mu.Unlock()
	defer close(r.gone)
	t := r.limiter.trace
	if t == nil {
		return r.wait(ctx)
	}
	t.unreserved(r.reply.Grant.N, r.reply.Slot())
	return t.waits(r.reply.Grant.N, func() error { return r.wait(ctx) })
}

// wait is Wait with the lock held.
func (r *Reservation) wait(ctx context.Context) error {
	l, n := r.limiter, r.reply.Grant.N
	l.backlog.waits(r)
	defer l.backlog.leave(n)
	l.holdsAgain(r)
	w := l.waiter(ctx, n)
	if !w.began.IsZero() {
		w.began = r.began
	}
	reply := r.reply
	for {
		if !l.accepts(w.request, reply) {
			return l.refuse(ctx, &w, asOfNow(reply))
		}
		place, err := l.turn(ctx, &w, reply)
		if place == nil {
			return err
		}
		if reply, err = l.ask(ctx, w.request, place); err != nil {
			return err
		}
		if reply.Granted {
			l.trace.granted(n, reply.Wait)
			r.mu.Lock()
			r.reply = reply
			r.mu.Unlock()
		}
	}
}

// asOfNow is a reply with what is left of its wait.
func asOfNow(reply batch.Reply) batch.Reply {
	answer := *reply.Answer
	answer.Wait = max(0, time.Until(reply.Slot()))
	return batch.Reply{Answer: &answer, Asked: reply.Asked, Arrived: time.Now()}
}

// Cancel gives the permits back while the slot lies ahead. Everybody else keeps
// their turns. After the slot, and the second time, Cancel does nothing and
// returns nil. It ends a Wait that is under way.
//
// A reservation that was due at once, with Delay 0, can be given back within
// 250 ms. So a caller can take permits of several limiters, all or none. Cancel
// says that nobody went with the turn: do not defer it if the turn is used.
//
// If the error matches [ErrOutcomeUnknown], the permits were given back once or
// not at all. After any other error they are still held, and Cancel may be
// called again. If ctx ends, a Cancel that is under way goes on.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.limiter.named(r.cancel(ctx))
}

func (r *Reservation) cancel(ctx context.Context) error {
	if err := ready(ctx, "nothing was given back"); err != nil {
		return err
	}
	r.endWait()
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	if r.over() || !r.isOurs() {
		return nil
	}
	grant := r.reply.Grant
	grant.Unused = r.reply.Wait <= 0
	err := r.limiter.batch.Return(ctx, grant)
	if err == nil || errors.Is(err, ErrOutcomeUnknown) {
		close(r.gone)
	}
	if err == nil {
		r.limiter.backlog.cancelled(r)
		r.passedNow()
		r.limiter.trace.unreserved(grant.N, r.reply.Slot())
	}
	return err
}

// isOurs reports whether the permits can be given back: nobody can have gone
// with them, or the caller knows that nobody has.
func (r *Reservation) isOurs() bool {
	left := time.Until(r.reply.Slot())
	return left > 0 || r.reply.Wait <= 0 && left > -cancelBound
}

func (r *Reservation) endWait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop(ErrReservationOver)
	}
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

func (r *Reservation) over() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}
