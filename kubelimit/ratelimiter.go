package kubelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/fairlimit/fairlimit"
)

const (
	// askBound is how long a method without a ctx waits for Redis.
	askBound = 5 * time.Second

	// askAgain is how long Accept waits after an error.
	askAgain = time.Second
)

// ErrStopped is returned by Wait after Stop. Nothing was consumed.
var ErrStopped = errors.New("kubelimit: stopped")

var errNoLimiter = fmt.Errorf("%w: the limiter is nil", fairlimit.ErrInvalidOption)

// RateLimiter is a [flowcontrol.RateLimiter] for the RateLimiter of a
// rest.Config. All clients that share the limiter's name share its quota.
//
// The fields must not be changed after the first call. A RateLimiter may be
// used by any number of goroutines and must not be copied. It holds no
// goroutine or timer while idle, and need not be stopped.
type RateLimiter struct {
	// Limiter decides. It is required: without one, Wait returns an error that
	// matches [fairlimit.ErrInvalidOption], and TryAccept returns false.
	Limiter fairlimit.Limiter

	// Quota is what QPS is worked out from, and nothing else.
	Quota fairlimit.Quota

	// OnError is told of the errors that TryAccept and Accept cannot return. It
	// may run several times at once. Nil means that nobody is told.
	OnError func(error)

	once    sync.Once
	stopped context.Context
	stop    context.CancelFunc
}

var _ flowcontrol.RateLimiter = (*RateLimiter)(nil)

// Wait sleeps until the caller's turn, as [fairlimit.Limiter] does: a turn that
// would come after ctx's deadline is refused at once. A call that waits during
// Stop ends with an error that matches [ErrStopped].
func (r *RateLimiter) Wait(ctx context.Context) error {
	life := r.life()
	switch {
	case ctx == nil:
		return fairlimit.ErrNilContext
	case r.Limiter == nil:
		return errNoLimiter
	case life.Err() != nil:
		return ErrStopped
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(ErrStopped) })()
	err := r.Limiter.Wait(ctx)
	// Limiters of others may not tell the cause.
	if err != nil && context.Cause(ctx) == ErrStopped && !errors.Is(err, ErrStopped) {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}

// Accept is Wait for those who cannot hear of an error. While Redis fails, and
// while the limiter refuses, it asks again every second. It returns when the
// turn comes, or without one after Stop.
func (r *RateLimiter) Accept() {
	life := r.life()
	for err := r.Wait(life); err != nil && life.Err() == nil; err = r.Wait(life) {
		r.tell(err)
		select {
		case <-life.Done():
		case <-time.After(askAgain):
		}
	}
}

// TryAccept takes a turn now or not at all. False means that none is free, that
// Redis failed or did not answer within five seconds, or that it was stopped.
func (r *RateLimiter) TryAccept() bool {
	if r.Limiter == nil {
		r.tell(errNoLimiter)
		return false
	}
	ctx, cancel := context.WithTimeout(r.life(), askBound)
	defer cancel()
	ok, err := r.Limiter.Allow(ctx)
	if err != nil && r.life().Err() == nil {
		r.tell(err)
	}
	return ok && err == nil
}

// Stop ends all calls that wait, and all that come. It changes nothing for
// others who share the quota. Stopping again does nothing.
func (r *RateLimiter) Stop() {
	r.life()
	r.stop()
}

// QPS is the rate that Quota allows, in permits a second.
func (r *RateLimiter) QPS() float32 {
	if r.Quota.Per <= 0 {
		return 0
	}
	return float32(float64(r.Quota.Permits) / r.Quota.Per.Seconds())
}

// life ends with Stop.
func (r *RateLimiter) life() context.Context {
	r.once.Do(func() { r.stopped, r.stop = context.WithCancel(context.Background()) })
	return r.stopped
}

func (r *RateLimiter) tell(err error) {
	if r.OnError != nil {
		r.OnError(err)
	}
}
