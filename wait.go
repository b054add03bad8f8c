package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/turns"
)

// errLineTooLong ends the wait in a line when WithMaxWait is over.
var errLineTooLong = errors.New("fairlimit: no turn within WithMaxWait")

// wait is one call, of a [Limiter] or a [Reservation].
type wait struct {
	request     coalesce.Request
	sleeper     *turns.Sleeper // nil until the caller sleeps
	reservation *Reservation   // nil for a call of Wait of a [Limiter]
	reply       coalesce.Reply // the newest answer
	taken       engine.Grant   // the turn, if it has come
}

// newWait is a call that has not asked yet. Its MaxWait counts from now if the
// caller may stand in line for long.
func (l *limiter) newWait(n int, amounts engine.Amounts, maxWait time.Duration) *wait {
	w := &wait{request: coalesce.Request{
		N: n, Amounts: amounts, Cost: l.cost(n, amounts), Line: l.line, MaxWait: maxWait, CountsLine: l.mayLineUp(),
	}}
	if maxWait != engine.Forever { // a look at the clock is not free
		w.request.Came = time.Now()
	}
	return w
}

// mayLineUp reports whether callers may stand in line for long.
func (l *limiter) mayLineUp() bool { return l.line != nil || l.asker.Away != nil }

// take waits for a turn and returns it. The turn is nil if a fallback gave it.
func (l *limiter) take(ctx context.Context, n int, amounts engine.Amounts) (turn *engine.Grant, err error) {
	err = l.trace.waits(n, func() error {
		return l.fallback.wait(ctx, n, func() (err error) {
			turn, err = l.takeTurn(ctx, n, amounts)
			return err
		})
	})
	return turn, err
}

// takeTurn is take, without a fallback.
func (l *limiter) takeTurn(ctx context.Context, n int, amounts engine.Amounts) (turn *engine.Grant, err error) {
	if err := l.backlog.enter(n); err != nil {
		return nil, err
	}
	defer l.backlog.leave(n)
	w := l.newWait(n, amounts, l.maxWait)
	w.request.Deadline, _ = ctx.Deadline()
	if err = l.ask(ctx, w, nil); err == nil {
		err = l.waitOut(ctx, w)
	}
	return &w.taken, err
}

// waitOut is the one wait loop. A caller that is granted a turn sleeps until it
// comes; if the turn does not stand any more, the caller is in line again. A
// caller that is refused for now sleeps and asks again.
func (l *limiter) waitOut(ctx context.Context, w *wait) (err error) {
	for {
		var place *coalesce.Place
		switch {
		case !l.accepts(&w.request, &w.reply):
			return l.refuse(ctx, w)
		case w.reply.Granted:
			if place, err = l.sleep(ctx, w); place == nil {
				return err
			}
		default:
			if clock.SleepUntil(ctx, w.reply.Slot()) != nil {
				return ctxerr.Ended(ctx, "left before the turn came")
			}
		}
		w.request.CountsLine = true
		if err = l.ask(ctx, w, place); err != nil {
			return err
		}
		if w.reply.Granted {
			w.reservation.keep(w.reply)
		}
	}
}

// ask gets the answer to the request, of a caller that stands in line already if
// it has a place. If the caller may stand in line for long, it stays no longer
// than its MaxWait allows. Then a caller of a flow is refused, unless it may hold
// permits or Redis is away.
func (l *limiter) ask(ctx context.Context, w *wait, place *coalesce.Place) (err error) {
	r := &w.request
	if place == nil {
		if err := l.tooFar(r); err != nil {
			return err
		}
	}
	if l.mayLineUp() && r.MaxWait > 0 && r.MaxWait != engine.Forever {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.Came.Add(r.MaxWait), errLineTooLong)
		defer cancel()
	}
	if place != nil {
		w.reply, err = l.asker.Await(ctx, *place)
	} else {
		w.reply, err = l.asker.Ask(ctx, r)
	}
	if err != nil && l.line != nil && context.Cause(ctx) == errLineTooLong &&
		!errors.Is(err, ErrOutcomeUnknown) && !away(err) {
		return &RefusedError{Wait: r.MaxWait, limit: limit(r)}
	}
	if err == nil && w.reply.Granted {
		l.trace.granted(r.N, w.reply.Wait)
	}
	return err
}

// sleep returns nil, nil once a turn that was granted has come. If the turn does
// not stand any more, the caller is in line again and gets its place there.
func (l *limiter) sleep(ctx context.Context, w *wait) (*coalesce.Place, error) {
	if w.reply.Wait <= 0 && l.sleepers.IsNew(w.reply) && l.sleepers.MayGo(w.reply, l.line) {
		l.passed(w.request.Cost)
		w.taken = w.reply.Grant
		return nil, nil
	}
	if w.sleeper == nil {
		w.sleeper = turns.NewSleeper(ctx, &w.request)
	}
	place, err := l.sleepers.Sleep(w.sleeper, w.reply)
	if place != nil {
		return place, nil
	}
	l.passed(w.request.Cost)
	w.taken = *w.sleeper.Grant()
	if r, ok := err.(*turns.Refusal); ok {
		err = &RefusedError{
			Wait: r.Wait, limit: limit(&w.request), paused: r.Paused, missed: w.sleeper.HasMissed(),
		}
	}
	return nil, err
}

// accepts reports whether a turn comes in time, or whether asking again makes
// sense after a refusal. If the answer took too long, even a grant can be too
// late.
func (l *limiter) accepts(r *coalesce.Request, reply *coalesce.Reply) bool {
	if !r.Deadline.IsZero() && reply.Slot().After(r.Deadline) {
		return false
	}
	return reply.Granted || reply.Wait <= r.Rest(reply.Asked) && !l.asker.Engine.Queues()
}

// refuse gives back a turn that comes too late, if it was granted.
func (l *limiter) refuse(ctx context.Context, w *wait) error {
	err := refused(&w.request, w.reply)
	err.missed = w.sleeper.HasMissed()
	if w.reply.Granted {
		l.asker.Abandon(ctx, w.reply.Grant)
		l.passed(w.request.Cost)
	}
	return err
}

// refused says that a turn comes too late, and whether that is because of a
// pause: without it, the turn would come in time.
func refused(r *coalesce.Request, reply coalesce.Reply) *RefusedError {
	inTime := reply.Wait-reply.Paused <= r.Rest(reply.Asked) &&
		(r.Deadline.IsZero() || !reply.Slot().Add(-reply.Paused).After(r.Deadline))
	return &RefusedError{
		Wait: max(0, time.Until(reply.Slot())), limit: limit(r), ceiling: reply.Ceiling,
		pause: max(0, reply.Paused-time.Since(reply.Arrived)), paused: reply.Paused > 0 && inTime,
	}
}

// limit names what bounds the wait of a request most.
func limit(r *coalesce.Request) string {
	now := time.Now()
	left, rest := r.Deadline.Sub(now), r.Rest(now)
	switch {
	case r.Deadline.IsZero() && r.MaxWait == 0:
		return "an immediate turn"
	case r.Deadline.IsZero() || rest < left:
		return fmt.Sprintf("WithMaxWait (%v left)", rest)
	case left < 0:
		return fmt.Sprintf("ctx's deadline (%v ago)", -left.Round(time.Microsecond))
	}
	return fmt.Sprintf("ctx's deadline (in %v)", left.Round(time.Microsecond))
}

// reserve is for callers that do not wait here: a refusal is final, however
// short. Ctx's deadline bounds the call, not the turn.
func (l *limiter) reserve(ctx context.Context, w *wait) error {
	err := l.ask(ctx, w, nil)
	if err == nil && !w.reply.Granted {
		return refused(&w.request, w.reply)
	}
	return err
}

// allowNow takes a turn that is due at once, or none.
func (l *limiter) allowNow(ctx context.Context, n int) (bool, error) {
	_, ok, err := l.takeNow(ctx, n)
	return ok, err
}

// takeNow is allowNow, and returns what was granted. A turn that was granted and
// does not stand any more is given back.
func (l *limiter) takeNow(ctx context.Context, n int) (grant engine.Grant, ok bool, err error) {
	if left, _ := l.sleepers.Held(); left > 0 && !l.sleepers.Stale() || l.line != nil && l.asker.Full(l.line, n) {
		return grant, false, nil
	}
	w := l.newWait(n, "", 0)
	err = l.reserve(ctx, w)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		l.trace.refused(n, err)
		return grant, false, nil
	case err != nil:
		return grant, false, err
	}
	defer l.passed(w.request.Cost)
	if l.sleepers.MayGo(w.reply, l.line) {
		return w.reply.Grant, true, nil
	}
	l.asker.Abandon(ctx, w.reply.Grant)
	return grant, false, nil
}

// WithMaxLateness sets how long after its slot a turn may still be taken. A
// caller can wake later than that because its process or machine stood still.
// Then it does not go. It takes the next turn that this limiter holds. The
// caller of that turn takes the one after it, and so on, and the last caller
// lines up again. A caller that finds no turn before its deadline is refused.
// The missed permits are given back, which mostly comes too late for others.
//
// So Wait returns at most d after the slot of the turn that it takes, however
// long the machine stands still. The default is half of [WithGuard], which
// leaves the other half for the way to the upstream; without that option it is
// 25 ms. 0 means no limit: every turn is taken, however late, unless a
// [Queue.Pause] held its caller. So does WithGuard(0) alone.
//
// A slot may pass while its answer is on the way. So if an answer took longer
// than the quickest recent ones, the difference counts as lateness. A caller
// that misses ten turns in a row gets [ErrMissed].
func WithMaxLateness(d time.Duration) Option {
	return func(o *options) {
		o.length("WithMaxLateness", d)
		o.maxLateness, o.steers = &d, o.steers || d > 0
	}
}

// defaultLateness is half of the longest guard that an engine takes by itself.
// Half of a shorter one would be less than what a busy machine is late by.
const defaultLateness = 25 * time.Millisecond

// lateness is what WithMaxLateness says, or what goes with the guard.
func (o *options) lateness() time.Duration {
	switch {
	case o.maxLateness != nil:
		return *o.maxLateness
	case o.guarded:
		return o.guard / 2
	}
	return defaultLateness
}
