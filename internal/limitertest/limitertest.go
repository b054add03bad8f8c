// Package limitertest is what the tests of limiters share: short words for
// making one, for asking it anything, and for looking at it.
package limitertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// New returns a limiter on fair under a name of its own.
func New(
	t testing.TB, rdb redis.UniversalClient, quota fairlimit.Quota, opts ...fairlimit.Option,
) *fairlimit.Queue {
	t.Helper()
	return Named(t, rdb, redistest.Name(t), quota, opts...)
}

// Alone is [New] on a server inside this process that nobody else uses.
func Alone(t testing.TB, quota fairlimit.Quota, opts ...fairlimit.Option) *fairlimit.Queue {
	t.Helper()
	return New(t, redistest.Mini(t).Client, quota, opts...)
}

// Named returns a limiter on fair under the given name. Two of one name share
// what one limiter has, as two processes would. Unless it is given one, it has no
// guard.
func Named(
	t testing.TB, rdb redis.UniversalClient, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
) *fairlimit.Queue {
	t.Helper()
	opts = append([]fairlimit.Option{fairlimit.WithGuard(0)}, opts...)
	q, err := fairlimit.NewQueue(rdb, name, quota, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// Status returns how the limiter stands. It may be called until the test has
// cleaned up, when the test's own ctx has ended.
func Status(t testing.TB, l fairlimit.Limiter) fairlimit.Status {
	t.Helper()
	s, err := l.Status(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Happens tells t of what metrics are to show, each time of another number of
// permits.
func Happens(t *fairlimit.Trace) {
	failed := errors.New("failed")
	t.Entered(3)
	t.Entered(4)
	t.Left(3, 300*time.Millisecond, nil)
	t.Left(4, time.Second, context.Canceled)
	t.Entered(5)
	t.Granted(5, time.Second)
	t.Refused(6, &fairlimit.RefusedError{})
	t.Refused(7, context.Canceled)
	t.Refused(8, failed)
	t.Taken(9, time.Millisecond, true)
	t.Missed(10, 500*time.Millisecond)
	t.GivenBack(11, nil)
	t.Asked("take", 12, time.Millisecond, nil)
	t.Asked("take", 2, time.Millisecond, failed)
	t.Paused(time.Hour)
	t.Lost()
	t.Settled("tokens", 9, 7)
	t.Settled("tokens", 9, 12)
	t.FellBack(failed)
}

// Pausing is a limiter that writes down its pauses.
type Pausing struct {
	*fairlimit.Queue
	Err error // what Pause returns

	mu     sync.Mutex
	pauses []time.Duration
}

// Pause pauses nobody.
func (p *Pausing) Pause(_ context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauses = append(p.pauses, d)
	return p.Err
}

// Pauses are how long the pauses were.
func (p *Pausing) Pauses() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses
}

// Standing is a limiter whose Status the test decides.
type Standing struct {
	fairlimit.Limiter
	As  fairlimit.Status
	Err error
}

// Status is what the test decided.
func (s *Standing) Status(context.Context) (fairlimit.Status, error) { return s.As, s.Err }
