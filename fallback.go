package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Fallback is a second limiter, see [WithFallback]. A *rate.Limiter of golang.org/x/time/rate is one as it is, and so is every [Limiter]. WaitN
// returns nil once n permits may be used, and an error when ctx ends or they never may.
type Fallback interface {
	WaitN(ctx context.Context, n int) error
}

// FailOpen is the [Fallback] that lets everybody go at once: while Redis fails there is no limit at all. It has to be asked for by its name.
var FailOpen Fallback = failOpen{}

type failOpen struct{}

func (failOpen) WaitN(ctx context.Context, _ int) error { return ctx.Err() }

func (failOpen) AllowN(ctx context.Context, _ int) (bool, error) { return ctx.Err() == nil, ctx.Err() }

// WithFallback lets f decide while Redis fails: on this machine alone, as a rate.Limiter with this process's share of the quota does, or on another
// Redis. Without it, which is the default, every failure is an error and nobody goes; [FailOpen] is the other end. A nil f is an error.
//
// Redis fails when a question ends in an error that is not the caller's own, such as [ErrUnreachable], [ErrOutcomeUnknown], [ErrState] or one of
// Redis (READONLY, OOM, NOPERM), or when it has no answer after a second. The caller's own are its ctx, a [*RefusedError], [ErrExceedsQuota],
// [ErrInvalidPermits] and [ErrTooManyQueued]; and [ErrFull] is none either, since a Redis that counts a queue that is too long is there, and so is the
// quota. From a failure on nobody pays for another: those who wait for an answer and those who come later go to f at once. Those who were granted a
// turn before keep it. No more often than once a second, and only when somebody calls, one goroutine reads whether Redis answers; then one caller
// asks it, and if it gets an answer, all do again. That one caller may lose the time until Redis fails again, a second at most.
//
// Wait and WaitN use f. Allow and AllowN do where f has AllowN(ctx, n) (bool, error), as a Limiter has, or AllowN(time.Time, n) bool, as a rate.Limiter
// has. Where it has neither, and for ReserveN always, the failure is the error, at once while Redis is known to fail. Status, Reset and Cancel
// ask Redis whatever happens. If f fails too, the error matches both errors.
//
// A caller's deadline bounds both together: f has what Redis has left of it. So a caller with less than that second left can end in its own deadline
// when Redis falls silent; once that is known, all of it is left for f. [WithMaxWait] and [WithMaxQueued] do not hold for f.
//
// What it gives up: while the one takes over from the other, both quotas add up. Turns granted before the failure go on being taken beside those
// that f gives, and back again: in any window of length Per at most Permits, and what every process's f allows in that time. Permits whose answer
// was lost, and those given back meanwhile, pass unused at the worst; none counts twice. Order holds within each, not across the two.
func WithFallback(f Fallback) Option {
	return func(o *options) error {
		if v := reflect.ValueOf(f); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%w: WithFallback: nil fallback", ErrInvalidOption)
		}
		o.fallback = f
		return nil
	}
}

// backup is a fallback and the knowledge of when to use it.
type backup struct {
	Fallback
	outage *outage
}

func (b *backup) wait(ctx context.Context, n int, first func(context.Context, int) error) error {
	why := b.outage.admit()
	if why == nil {
		if why = first(ctx, n); ctx.Err() != nil || !fails(why) {
			return why
		}
	}
	return both(b.WaitN(ctx, n), why)
}

func (b *backup) allow(ctx context.Context, n int, first func(context.Context, int) (bool, error)) (bool, error) {
	why := b.outage.admit()
	if why == nil {
		var allowed bool
		if allowed, why = first(ctx, n); ctx.Err() != nil || !fails(why) {
			return allowed, why
		}
	}
	switch f := b.Fallback.(type) {
	case interface {
		AllowN(context.Context, int) (bool, error)
	}:
		allowed, err := f.AllowN(ctx, n)
		return allowed && err == nil, both(err, why)
	case interface{ AllowN(time.Time, int) bool }:
		return f.AllowN(time.Now(), n), nil
	}
	return false, why
}

func both(err, why error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fairlimit: fallback: %w; it was asked because of: %w", err, why)
}

// fails tells errors of Redis and of the way there from those that are the caller's own.
func fails(err error) bool {
	var refused *RefusedError
	own := []error{ErrExceedsQuota, ErrInvalidPermits, ErrTooManyQueued, ErrFull}
	return err != nil && !errors.As(err, &refused) && !slices.ContainsFunc(own, func(o error) bool { return errors.Is(err, o) })
}
