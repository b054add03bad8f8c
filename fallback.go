package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Waiter decides in place of a limiter: see [Fallback]. A *rate.Limiter of
// golang.org/x/time/rate is one, and so is every [Limiter]. WaitN returns nil
// once n permits may be used. It returns an error if ctx ends before, or if they
// may never be used.
type Waiter interface {
	WaitN(ctx context.Context, n int) error
}

// FailOpen is the [Waiter] that lets everybody go at once. While Redis fails,
// there is no limit at all.
var FailOpen Waiter = failOpen{}

type failOpen struct{}

func (failOpen) WaitN(ctx context.Context, _ int) error { return ctx.Err() }

func (failOpen) AllowN(ctx context.Context, _ int) (bool, error) { return ctx.Err() == nil, ctx.Err() }

// askAgain is how long Redis is not asked after it failed.
const askAgain = time.Second

// Fallback returns a Limiter that lets second decide while Redis fails. Second may
// limit this machine alone, such as a rate.Limiter with this process's share of the
// quota, or it may use another Redis. Without a fallback every failure is an error
// and nobody goes. [FailOpen] is the other extreme.
//
// Redis fails if l returns an error that is not the caller's own: the end of its
// ctx, a [*RefusedError], or what no Redis could do anything about, such as
// [ErrExceedsQuota]. From then on all callers go to second at once, those that
// stand in the line of l as well. Turns that were granted before stay. Once a
// second one caller reads the Status of l. If that is answered, all ask l again.
// If l was made [WithRetry], its calls wait instead of failing.
//
// A call whose ctx ends before Redis has failed says nothing of Redis: give the
// client a ReadTimeout that is shorter than the deadlines.
//
// A call costs at most one ReadTimeout of the client more than second takes. Wait
// and WaitN use second. Allow and AllowN use it if it has a method AllowN(ctx, n)
// (bool, error), as a Limiter has, or AllowN(time.Time, n) bool, as a rate.Limiter
// has. If it has neither, they return the failure. Status, Reset and Pause always
// ask Redis. If second fails as well, the error matches both errors.
//
// The price: while one takes over from the other, both quotas add up. To size
// second for n processes, give it 1/n of the quota if a short excess is harmless.
// If it is not, share the upstream's quota: half for Redis, and 1/(2n) for each
// second. There is no order between the two.
//
// If l or second is nil, every call returns an error that matches
// [ErrInvalidOption].
func Fallback(l Limiter, second Waiter) Limiter {
	if engine.IsNil(l) || engine.IsNil(second) {
		return breaks("Fallback: a limiter is nil")
	}
	f := &fallback{Limiter: l, second: second}
	if traced, ok := l.(interface{ tracer() *Trace }); ok {
		f.fellBack = traced.tracer().FellBack
	}
	return f
}

func (l *limiter) tracer() *Trace { return l.trace }

// fallback is a limiter, a second one, and when the first failed.
//
// Invariant, under mu: failure is not nil while second decides. Then at most one
// caller at a time probes the first.
type fallback struct {
	Limiter
	second   Waiter
	fellBack func(because error) // may be nil

	mu      sync.Mutex
	failure error
	until   time.Time // nobody probes before
	probing bool
}

var _ Limiter = (*fallback)(nil)

func (f *fallback) Wait(ctx context.Context) error { return f.WaitN(ctx, 1) }

func (f *fallback) WaitN(ctx context.Context, n int) error {
	_, err := f.either(ctx,
		func() (bool, error) { err := f.Limiter.WaitN(ctx, n); return err == nil, err },
		func(error) (bool, error) { err := f.second.WaitN(ctx, n); return err == nil, err })
	return err
}

func (f *fallback) Allow(ctx context.Context) (bool, error) { return f.AllowN(ctx, 1) }

func (f *fallback) AllowN(ctx context.Context, n int) (bool, error) {
	return f.either(ctx,
		func() (bool, error) { return f.Limiter.AllowN(ctx, n) },
		func(why error) (bool, error) {
			switch second := f.second.(type) {
			case interface {
				AllowN(context.Context, int) (bool, error)
			}:
				return second.AllowN(ctx, n)
			case interface{ AllowN(time.Time, int) bool }:
				return second.AllowN(time.Now(), n), nil
			}
			return false, why
		})
}

// either asks the first, or the second if Redis fails.
func (f *fallback) either(
	ctx context.Context, first func() (bool, error), second func(why error) (bool, error),
) (bool, error) {
	if err := ready(ctx, "nothing was consumed"); err != nil {
		return false, err
	}
	why := f.failing(ctx)
	if why == nil {
		ok, err := first()
		if why = f.judge(ctx, err); why == nil {
			return ok, err
		}
	}
	ok, err := second(why)
	if err != nil && err != why {
		err = fmt.Errorf("fairlimit: fallback: %w; it was asked because of: %w", err, why)
	}
	return ok, err
}

// failing is why the first is not to be asked, nil if it is. Once a second one
// caller finds out whether Redis answers again.
func (f *fallback) failing(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil || f.probing || time.Now().Before(f.until) {
		return f.failure
	}
	f.probing = true
	f.mu.Unlock()
	_, err := f.Limiter.Status(ctx)
	f.mu.Lock()
	f.probing, f.until = false, time.Now().Add(askAgain)
	if ctx.Err() == nil && !failed(err) {
		f.change(nil)
	}
	return f.failure
}

// judge returns the error of the first if Redis failed. That the first let somebody
// go says nothing: Redis may have told the turn before.
func (f *fallback) judge(ctx context.Context, err error) error {
	if ctx.Err() != nil || !failed(err) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Now().Add(askAgain)
	f.change(err)
	return err
}

// change, under mu, takes over from the other, or nothing if it has already.
func (f *fallback) change(failure error) {
	changes := (f.failure == nil) != (failure == nil)
	f.failure = failure
	if changes && f.fellBack != nil {
		f.fellBack(failure)
	}
}

// failed tells errors of Redis and of the way there from the caller's own.
func failed(err error) bool {
	own := []error{
		ErrExceedsQuota, ErrInvalidPermits, ErrFull, ErrMissed, ErrNoQuota, ErrNilContext, ErrUnsupported,
	}
	is := func(own error) bool { return errors.Is(err, own) }
	return err != nil && !errors.As(err, new(*RefusedError)) && !slices.ContainsFunc(own, is)
}

// Pause pauses the first, if that can be paused.
func (f *fallback) Pause(ctx context.Context, d time.Duration) error {
	if p, ok := f.Limiter.(pauser); ok {
		return p.Pause(ctx, d)
	}
	return fmt.Errorf("%w: the limiter of the Fallback cannot be paused", ErrUnsupported)
}

// pauser is what httplimit and others ask a limiter for.
type pauser interface {
	Pause(ctx context.Context, d time.Duration) error
}
