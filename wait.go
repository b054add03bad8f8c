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

// wait is one call, of a [Limiter] or a [Reservation].
type wait struct {
	coalesce.Request
	sleeper *turns.Sleeper // nil until the caller sleeps
	turn    Turn           // once it has come
}

// newWait is a call that has not asked yet.
func (l *limiter) newWait(ctx context.Context, n int, amounts engine.Amounts, maxWait time.Duration) *wait {
	w := &wait{turn: Turn{limiter: l}, Request: coalesce.Request{
		Ctx: ctx, N: n, Amounts: amounts, Cost: l.cost(n, amounts), Line: l.line, MaxWait: maxWait,
		TooLarge: l.tooLarge(n, amounts),
	}}
	if maxWait != engine.Forever { // a look at the clock is not free
		w.Came = time.Now()
	}
	return w
}

// take waits for a turn and returns it. The turn is nil if a fallback gave it.
func (l *limiter) take(ctx context.Context, n int, amounts engine.Amounts) (turn *Turn, err error) {
	err = l.trace.waits(n, func() error {
		return l.fallback.wait(ctx, n, func() (err error) {
			turn, err = l.takeTurn(ctx, n, amounts)
			return err
		})
	})
	return turn, err
}

// takeTurn is take, without a fallback.
func (l *limiter) takeTurn(ctx context.Context, n int, amounts engine.Amounts) (*Turn, error) {
	if err := l.backlog.enter(n); err != nil {
		return nil, err
	}
	defer l.backlog.leave(n)
	w := l.newWait(ctx, n, amounts, l.maxWait)
	w.Deadline, _ = ctx.Deadline()
	err := l.askFirst(w)
	if err == nil {
		err = l.waitOut(w)
	}
	if err != nil {
		return nil, orUnknown(err, w.Lost())
	}
	return &w.turn, nil
}

// waitOut is the one wait loop. A caller that is granted a turn sleeps until it
// comes; if the turn does not stand any more, the caller is in line again. A
// caller that is refused for now sleeps and asks again.
func (l *limiter) waitOut(w *wait) error {
	for {
		switch {
		case !l.accepts(w):
			err := w.refused()
			if w.Reply.Granted {
				l.giveUp(w)
			}
			return err
		case w.Reply.Granted:
			if again, err := l.sleep(w); !again {
				return err
			}
		case clock.SleepUntil(w.Ctx, w.Reply.Slot()) != nil:
			return ctxerr.Ended(w.Ctx, "left before the turn came")
		}
		if err := l.ask(w); err != nil {
			return err
		}
	}
}

// askFirst is ask, unless the line of a flow is too long.
func (l *limiter) askFirst(w *wait) error {
	if err := l.tooFar(w); err != nil {
		return err
	}
	return l.ask(w)
}

// ask gets the answer to the request. A caller that stood in line for its MaxWait
// is refused, unless it may hold permits or Redis is away.
func (l *limiter) ask(w *wait) error {
	err := l.asker.Ask(&w.Request)
	switch {
	case err == nil && w.Reply.Granted:
		tell(l.trace.Granted, w.N, w.Reply.Wait)
	case errors.Is(err, coalesce.ErrMaxWait) && !errors.Is(err, ErrOutcomeUnknown) && !away(err):
		return &RefusedError{Wait: w.MaxWait, limit: limit(&w.Request)}
	}
	return err
}

// sleep returns false, nil once a turn that was granted has come. If the turn
// does not stand any more, the caller is in line again.
func (l *limiter) sleep(w *wait) (again bool, err error) {
	if w.Reply.Wait <= 0 && l.sleepers.MayGo(&w.Request) {
		l.passed(w.Cost)
		w.turn.grant = &w.Reply.Grant
		return false, nil
	}
	if w.sleeper == nil {
		w.sleeper = turns.NewSleeper(&w.Request)
	}
	if again, err = l.sleepers.Sleep(w.sleeper); again {
		return true, nil
	}
	l.passed(w.Cost)
	w.turn.grant = w.sleeper.Grant()
	if r, ok := err.(*turns.Refusal); ok {
		err = &RefusedError{Wait: r.Wait, limit: limit(&w.Request), paused: r.Paused}
	}
	return false, err
}

// accepts reports whether a turn comes in time, or whether asking again makes
// sense after a refusal. If the answer took too long, even a grant can be too
// late.
func (l *limiter) accepts(w *wait) bool {
	if !w.Deadline.IsZero() && w.Reply.Slot().After(w.Deadline) {
		return false
	}
	return w.Reply.Granted || w.Reply.Wait <= w.Rest(w.Reply.Asked) && !l.asker.Engine.Queues()
}

// giveUp gives back a turn that was granted.
func (l *limiter) giveUp(w *wait) {
	l.asker.Abandon(w.Ctx, w.Reply.Grant)
	l.passed(w.Cost)
}

// refused says that a turn comes too late, and whether that is because of a
// pause: without it, the turn would come in time.
func (w *wait) refused() *RefusedError {
	reply := &w.Reply
	inTime := reply.Wait-reply.Paused <= w.Rest(reply.Asked) &&
		(w.Deadline.IsZero() || !reply.Slot().Add(-reply.Paused).After(w.Deadline))
	return &RefusedError{
		Wait: max(0, time.Until(reply.Slot())), limit: limit(&w.Request), ceiling: reply.Ceiling,
		paused: reply.Paused > 0 && inTime,
	}
}

// limit names what bounds the wait of a request most.
func limit(r *coalesce.Request) string {
	now := time.Now()
	left, rest := r.Deadline.Sub(now), r.MaxWait
	if !r.Came.IsZero() {
		rest = max(0, rest-now.Sub(r.Came))
	}
	switch {
	case r.Deadline.IsZero() && r.MaxWait == 0:
		return "an immediate turn"
	case r.Deadline.IsZero() || rest < left:
		return fmt.Sprintf("WithMaxWait (%v left)", rest.Round(time.Microsecond))
	case left < 0:
		return fmt.Sprintf("ctx's deadline (%v ago)", -left.Round(time.Microsecond))
	}
	return fmt.Sprintf("ctx's deadline (in %v)", left.Round(time.Microsecond))
}

// reserve is for callers that do not wait here: a refusal is final, however
// short. Ctx's deadline bounds the call, not the turn.
func (l *limiter) reserve(w *wait) error {
	err := l.askFirst(w)
	if err == nil && !w.Reply.Granted {
		err = w.refused()
	}
	return orUnknown(err, w.Lost())
}

// orUnknown is an error, which matches [ErrOutcomeUnknown] if an answer was lost
// before: others say that nothing was consumed. A refusal is not one any more.
func orUnknown(err error, lost bool) error {
	if err == nil || !lost || errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	if _, ok := err.(*RefusedError); ok {
		return fmt.Errorf("%w: an answer was lost, and then: %v: %w", ErrOutcomeUnknown, err, context.DeadlineExceeded)
	}
	return fmt.Errorf("%w: an answer was lost, and then: %w", ErrOutcomeUnknown, err)
}

// takeNow takes a turn that is due at once, or none, which is nil. A turn that was
// granted and does not stand any more is given back.
func (l *limiter) takeNow(ctx context.Context, n int) (*Turn, error) {
	if left, _ := l.sleepers.Held(); left > 0 && !l.sleepers.Stale() {
		return nil, nil
	}
	w := l.newWait(ctx, n, "", 0)
	err := l.reserve(w)
	if _, ok := err.(*RefusedError); ok {
		l.trace.refused(n, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !l.sleepers.MayGo(&w.Request) {
		tell(l.trace.Missed, n, max(0, time.Since(w.Reply.Slot())))
		l.giveUp(w)
		return nil, nil
	}
	l.passed(w.Cost)
	w.turn.grant = &w.Reply.Grant
	return &w.turn, nil
}

// WithMaxLateness sets how long after its slot a turn may still be taken. A
// caller can wake later than that because its process or machine stood still.
// Then it does not go. It takes the next turn that this limiter holds, the caller
// of that the one after it, and so on, and the last caller lines up again. A
// caller that finds no turn before its deadline is refused, even if a later call
// is answered with one at that moment. The missed permits are given back, which
// mostly comes too late for others.
//
// So Wait returns at most d after the slot of the turn that it takes, however
// long the machine stands still. The default is half of [WithGuard], which
// leaves the other half for the way to the upstream; without that option it is
// 25 ms. 0 means no limit, and so does WithGuard(0) alone: every turn is taken,
// however late, unless a [Queue.Pause] held its caller.
//
// A slot may pass while its answer is on the way. So if an answer took longer
// than the quickest of the last eight, the difference counts as lateness; the
// first one has none to be compared with. A caller that misses ten turns in a row
// gets [ErrMissed].
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
