package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/breaker"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/turns"
)

// Fallback is a second limiter, see [WithFallback]. A *rate.Limiter of
// golang.org/x/time/rate is one, and so is every [Limiter]. WaitN returns nil
// once n permits may be used. It returns an error if ctx ends before, or if they
// may never be used.
type Fallback interface {
	WaitN(ctx context.Context, n int) error
}

// FailOpen is the [Fallback] that lets everybody go at once. While Redis fails,
// there is no limit at all.
var FailOpen Fallback = failOpen{}

type failOpen struct{}

func (failOpen) WaitN(ctx context.Context, _ int) error { return ctx.Err() }

func (failOpen) AllowN(ctx context.Context, _ int) (bool, error) { return ctx.Err() == nil, ctx.Err() }

// WithFallback lets f decide while Redis fails. F may limit this machine alone,
// such as a rate.Limiter with this process's share of the quota, or it may use
// another Redis. Without a fallback, which is the default, every failure is an
// error and nobody goes. [FailOpen] is the other extreme. A nil f is an error.
//
// Redis fails if a question ends in an error that is not the caller's own, or if
// there is no answer after a second. Such errors are [ErrUnreachable],
// [ErrOutcomeUnknown], [ErrState], and those of Redis, such as READONLY, OOM or
// NOPERM. The caller's own are the end of its ctx or of its [WithMaxWait], a
// [*RefusedError], [ErrExceedsQuota], [ErrInvalidPermits], [ErrTooManyQueued]
// and [ErrMissed]. [ErrFull] and [ErrNoQuota] are no failures, because Redis
// answered.
//
// After a failure all callers go to f at once: those that wait for an answer,
// and those that come later. Turns that were granted before stay. At most once a
// second, and only when somebody calls, a circuit breaker checks whether Redis
// answers. Then one caller asks Redis. If it gets an answer, all ask Redis again.
// If Redis fails again, that caller loses at most a second. A caller that f was
// asked for stays with f, even if Redis is back sooner.
//
// Wait and WaitN use f. Allow and AllowN use it if it has a method
// AllowN(ctx, n) (bool, error), as a Limiter has, or AllowN(time.Time, n) bool,
// as a rate.Limiter has. If it has neither, they return the failure, as ReserveN
// always does, at once while Redis is known to fail. Status, Reset and Cancel
// always ask Redis. If f fails as well, the error matches both errors.
//
// A caller's deadline bounds both together. When Redis falls silent, up to a
// second passes before f is asked. Once the failure is known, f has all of the
// time. [WithMaxWait] and [WithMaxQueued] do not hold for f, nor does the pause
// of one flow. A [Queue.Pause] of all that this limiter knows of does, also for
// callers that wait for f: they ask Redis as soon as that is back, and f again
// once the pause is over. If an answer to them was lost before, what it granted
// passes unused. Allow returns false until then.
//
// The price: while one takes over from the other, both quotas add up. So a window
// of length Per may hold Permits, and in addition what f allows in each process
// in that time. To size f for n processes, give it 1/n of the quota if a short
// excess is harmless. If it is not, share the upstream's quota: half for Redis,
// and 1/(2n) for each f. There is no order between the two, nor among callers
// that go from f back to Redis.
func WithFallback(f Fallback) Option {
	return func(o *options) {
		if v := reflect.ValueOf(f); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			o.refuse("WithFallback: nil fallback")
			return
		}
		o.fallback = f
	}
}

// fallback is a second limiter and the breaker that says when to use it. What
// the limiter knows of a pause holds for both. Nil asks Redis only.
type fallback struct {
	second   Fallback
	breaker  *breaker.Breaker
	sleepers *turns.Sleepers
}

// ask calls first if Redis is to be asked. It returns the reason to use the
// second, or nil if Redis has decided, and the error of first.
func (f *fallback) ask(ctx context.Context, first func() error) (why, err error) {
	if f == nil {
		return nil, first()
	}
	if why := f.breaker.Admit(); why != nil {
		return why, why
	}
	if err = first(); failed(err) && ctx.Err() == nil {
		why = err
	}
	return why, err
}

// wait is first, or the second's WaitN if Redis fails. Redis may be back since, so
// whoever slept through a pause begins anew: a permit of the second is lost then.
func (f *fallback) wait(ctx context.Context, n int, first func() error) error {
	lost := false // an answer to this caller
	ask := func() error {
		err := first()
		lost = lost || errors.Is(err, ErrOutcomeUnknown)
		return err
	}
	for {
		why, err := f.ask(ctx, ask)
		if why == nil {
			return orUnknown(err, lost)
		}
		slept, err := f.sleepInPause(ctx, n)
		if err == nil && !slept {
			if err = bothFailed(f.second.WaitN(ctx, n), why); err == nil {
				slept, err = f.sleepInPause(ctx, n)
			}
		}
		if err != nil || !slept {
			return orUnknown(err, lost)
		}
	}
}

// sleepInPause sleeps if the limiter knows of a pause, until that is over, was
// ended, or Redis can be probed again. It reports whether there was one.
func (f *fallback) sleepInPause(ctx context.Context, n int) (slept bool, err error) {
	left, changed := f.sleepers.Held()
	if left <= 0 {
		return false, nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < left {
		asked := limit(&coalesce.Request{N: n, MaxWait: engine.Forever, Deadline: deadline})
		return false, &RefusedError{Wait: left, limit: asked, paused: true}
	}
	if clock.NapUntil(ctx, time.Now().Add(min(left, breaker.Interval)), changed) != nil {
		return false, ctxerr.Ended(ctx, "left in a pause")
	}
	return true, nil
}

// allow is first, or the second's AllowN, if it has one, if Redis fails. False
// without an error says that nothing has changed, so not if an answer was lost.
func (f *fallback) allow(ctx context.Context, n int, first func() (bool, error)) (ok bool, err error) {
	lost := false
	why, _ := f.ask(ctx, func() error {
		ok, err = first()
		lost = errors.Is(err, ErrOutcomeUnknown)
		return err
	})
	if why == nil {
		return ok, err
	}
	if ok, err = f.allowWithout(ctx, n, why); !ok && err == nil && lost {
		err = why
	}
	return ok, err
}

// allowWithout is allow while Redis fails.
func (f *fallback) allowWithout(ctx context.Context, n int, why error) (ok bool, err error) {
	if left, _ := f.sleepers.Held(); left > 0 {
		return false, nil
	}
	switch second := f.second.(type) {
	case interface {
		AllowN(context.Context, int) (bool, error)
	}:
		ok, err := second.AllowN(ctx, n)
		return ok && err == nil, bothFailed(err, why)
	case interface{ AllowN(time.Time, int) bool }:
		return second.AllowN(time.Now(), n), nil
	}
	return false, why
}

func bothFailed(err, why error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fairlimit: fallback: %w; it was asked because of: %w", err, why)
}

// failed tells errors of Redis and of the way there from the caller's own.
func failed(err error) bool {
	var refused *RefusedError
	own := []error{
		ErrExceedsQuota, ErrInvalidPermits, ErrTooManyQueued, ErrFull, ErrMissed, ErrNoQuota, ErrUnknownUnit,
		coalesce.ErrMaxWait,
	}
	is := func(own error) bool { return errors.Is(err, own) }
	return err != nil && !errors.As(err, &refused) && !slices.ContainsFunc(own, is)
}

// watched is an engine whose questions tell a breaker how they end. That
// permits can be given back does not show that any can be granted: only Take
// heals.
type watched struct {
	engine.Engine
	breaker *breaker.Breaker
}

func (w watched) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	if err := w.breaker.Check(); err != nil {
		return nil, err
	}
	end := w.breaker.Begin(true)
	answers, err := w.Engine.Take(ctx, requests)
	end(failure(answers, err))
	return answers, err
}

func (w watched) GiveBack(ctx context.Context, grants []engine.Grant) error {
	end := w.breaker.Begin(false)
	err := w.Engine.GiveBack(ctx, grants)
	end(failure(nil, err))
	return err
}

// failure is the error, if any, by which a question shows that Redis fails.
func failure(answers []engine.Answer, err error) error {
	if failed(err) {
		return err
	}
	for _, a := range answers {
		if failed(a.Err) {
			return a.Err
		}
	}
	return nil
}
