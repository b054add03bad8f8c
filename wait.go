package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/turns"
)

// waitTurn is the one wait loop. A caller that is granted a turn sleeps until
// it comes; if the turn does not stand any more, the caller is in line again. A
// caller that is refused for now sleeps and asks again.
func (l *limiter) waitTurn(ctx context.Context, n int) error {
	if err := l.backlog.enter(n); err != nil {
		return err
	}
	defer l.backlog.leave(n)
	w := l.waiter(ctx, n)
	if err := l.tooFar(w.request); err != nil {
		return err
	}
	reply, err := l.ask(ctx, w.request, nil)
	for err == nil {
		var place *batch.Place
		switch {
		case !l.accepts(w.request, reply):
			return l.refuse(ctx, &w, reply)
		case reply.Granted:
			l.trace.granted(n, reply.Wait)
			if place, err = l.turn(ctx, &w, reply); place == nil {
				return err
			}
			reply, err = l.ask(ctx, w.request, place)
		default:
			if err := l.pause(ctx, reply.Slot()); err != nil {
				return err
			}
			reply, err = l.ask(ctx, w.again(), nil)
		}
	}
	return err
}

// waiter is one caller of waitTurn.
type waiter struct {
	request batch.Request
	maxWait time.Duration
	began   time.Time // zero if it accepts any wait: a look at the clock is not free
	sleeper *turns.Sleeper
}

func (l *limiter) waiter(ctx context.Context, n int) waiter {
	w := waiter{request: batch.Request{N: n, MaxWait: l.maxWait, Flow: l.flow}, maxWait: l.maxWait}
	w.request.Deadline, _ = ctx.Deadline()
	if l.maxWait != engine.Forever {
		w.began = time.Now()
	}
	if l.mayLineUp() {
		w.request.Began = w.began
	}
	return w
}

// again is the request of one who asks once more.
func (w *waiter) again() batch.Request {
	if !w.began.IsZero() {
		now := time.Now()
		w.request.MaxWait = max(0, w.maxWait-now.Sub(w.began))
		if !w.request.Began.IsZero() {
			w.request.Began = now
		}
	}
	return w.request
}

// turn returns nil, nil once a turn that was granted has come. If it does not
// stand any more, the caller is in line again and gets its place there. With a
// [*turns.Kept] it lies ahead still.
func (l *limiter) turn(ctx context.Context, w *waiter, reply batch.Reply) (*batch.Place, error) {
	if reply.Wait <= 0 && l.turns.IsNew(reply) && l.turns.Goes(reply, w.request.Flow) {
		l.passed(w.request.N)
		return nil, nil
	}
	if w.sleeper == nil {
		w.sleeper = turns.NewSleeper(ctx, w.request, w.began)
	}
	place, err := l.turns.Sleep(w.sleeper, reply)
	if _, kept := err.(*turns.Kept); kept {
		return nil, err
	}
	if place != nil {
		w.again()
	} else {
		l.passed(w.request.N)
	}
	return place, w.refusal(err)
}

// refusal is a refusal of package turns in the words of this one.
func (w *waiter) refusal(err error) error {
	if r, ok := err.(*turns.Refusal); ok {
		return &RefusedError{Wait: r.Wait, limit: limit(w.request), paused: r.Paused, missed: w.sleeper.HasMissed()}
	}
	return err
}

// limit names what bounds the wait of a request most.
func limit(request batch.Request) string {
	left := time.Until(request.Deadline)
	switch {
	case request.Deadline.IsZero() && request.MaxWait == 0:
		return "an immediate turn"
	case request.Deadline.IsZero() || request.MaxWait < left:
		return fmt.Sprintf("WithMaxWait (%v left)", request.MaxWait)
	}
	if left < 0 {
		return fmt.Sprintf("ctx's deadline (%v ago)", -left.Round(time.Microsecond))
	}
	return fmt.Sprintf("ctx's deadline (in %v)", left.Round(time.Microsecond))
}

// accepts reports whether a turn comes in time, or whether asking again makes
// sense after a refusal. If the answer took too long, even a grant can be too
// late.
func (l *limiter) accepts(request batch.Request, reply batch.Reply) bool {
	if !request.Deadline.IsZero() && reply.Slot().After(request.Deadline) {
		return false
	}
	return reply.Granted || reply.Wait <= request.MaxWait && !l.batch.Engine.Queues()
}

// refuse gives back a turn that comes too late, if it was granted.
func (l *limiter) refuse(ctx context.Context, w *waiter, reply batch.Reply) error {
	if reply.Granted {
		l.batch.Abandon(ctx, reply.Grant)
		l.passed(w.request.N)
	}
	err := refused(w.request, reply)
	err.missed = w.sleeper.HasMissed()
	return err
}

// refused says that a turn comes too late, and whether that is because of a
// pause: without it, it would come in time.
func refused(request batch.Request, reply batch.Reply) *RefusedError {
	inTime := reply.Wait-reply.Paused <= request.MaxWait &&
		(request.Deadline.IsZero() || !reply.Slot().Add(-reply.Paused).After(request.Deadline))
	return &RefusedError{
		Wait: reply.Wait, limit: limit(request),
		pause: max(0, reply.Paused-time.Since(reply.Arrived)), paused: reply.Paused > 0 && inTime,
	}
}

// pause returns nil once asking again makes sense.
func (l *limiter) pause(ctx context.Context, until time.Time) error {
	if clock.SleepUntil(ctx, until) == nil {
		return nil
	}
	return ctxerr.Ended(ctx, "left before the turn came")
}

// reserve is for those who do not wait here: a refusal is final, however short.
// Ctx's deadline bounds the call, not the turn.
func (l *limiter) reserve(ctx context.Context, n int, maxWait time.Duration) (batch.Reply, error) {
	request := batch.Request{N: n, MaxWait: maxWait, Flow: l.flow}
	if l.mayLineUp() {
		request.Began = time.Now()
		if err := l.tooFar(request); err != nil {
			return batch.Reply{}, err
		}
	}
	reply, err := l.ask(ctx, request, nil)
	if err == nil && !reply.Granted {
		return reply, refused(request, reply)
	}
	return reply, err
}

// allowNow takes a turn that is due at once, or none. One that was granted and
// does not stand any more is given back.
func (l *limiter) allowNow(ctx context.Context, n int) (bool, error) {
	if l.turns.Held() > 0 && !l.turns.Stale() || l.flow != nil && l.batch.Full(l.flow, n) {
		return false, nil
	}
	reply, err := l.reserve(ctx, n, 0)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		l.trace.refused(n, err)
		return false, nil
	case err != nil:
		return false, err
	}
	l.trace.granted(n, 0)
	defer l.passed(n)
	if l.turns.Goes(reply, l.flow) {
		return true, nil
	}
	l.batch.Abandon(ctx, reply.Grant)
	return false, nil
}
