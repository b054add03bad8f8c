package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/metrics"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// counts is a meter that counts.
type counts struct {
	mu      sync.Mutex
	waits   []time.Duration
	permits map[string]int
	asked   map[string]int
	shared  int // callers
	others  map[string]int
}

func newCounts() *counts {
	return &counts{permits: map[string]int{}, asked: map[string]int{}, others: map[string]int{}}
}

func (c *counts) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *counts) Waited(d time.Duration) { c.locked(func() { c.waits = append(c.waits, d) }) }
func (c *counts) Permits(o metrics.Outcome, n int) {
	c.locked(func() { c.permits[metrics.Outcomes[o]] += n })
}
func (c *counts) Woke(time.Duration) { c.locked(func() { c.others["woke"]++ }) }
func (c *counts) Asked(op string, failed bool) {
	c.locked(func() { c.asked[fmt.Sprintf("%s %t", op, failed)]++ })
}
func (c *counts) Shared(callers int) { c.locked(func() { c.shared += callers }) }
func (c *counts) Paused()            { c.locked(func() { c.others["paused"]++ }) }
func (c *counts) Settled(unit string, reserved, used int) {
	c.locked(func() {
		for i, n := range metrics.PartsOf(reserved, used) {
			c.permits[unit+" "+metrics.Parts[i]] += n
		}
	})
}
func (c *counts) Lost() { c.locked(func() { c.others["lost"]++ }) }

// books are those of a new limiter on fair.
func books(
	t *testing.T, rdb redis.UniversalClient, quota fairlimit.Quota, opts ...fairlimit.Option,
) (fairlimit.Reserver, *metrics.Books, *counts) {
	c := newCounts()
	b := metrics.New(c)
	return limitertest.New(t, rdb, quota, append(opts, fairlimit.WithTrace(b.Trace()))...), b, c
}

func TestWhoWaitsAndWhatTheyHoldAheadIsCounted(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l, b, c := books(t, rdb, fairlimit.PerSecond(1), fairlimit.WithMaxQueued(10))
		holds := func(callers, permits int) {
			t.Helper()
			synctest.Wait()
			r := b.Read(t.Context())
			assert.Equal(t, callers, r.CallersWaiting, "callers")
			assert.Equal(t, permits, r.PermitsAhead, "permits ahead")
		}
		holds(0, 0)
		require.NoError(t, l.Wait(t.Context())) // at 0 s
		holds(0, 0)

		leaving, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, l.Wait(t.Context())) }) // at 1 s
		synctest.Wait()
		wg.Go(func() { assert.ErrorIs(t, l.Wait(leaving), context.Canceled) }) // at 2 s
		holds(2, 2)

		byHand, err := l.ReserveN(t.Context(), 1) // at 3 s
		require.NoError(t, err)
		waitedFor, err := l.ReserveN(t.Context(), 1) // at 4 s
		require.NoError(t, err)
		cancelled, err := l.ReserveN(t.Context(), 1) // at 5 s
		require.NoError(t, err)
		holds(2, 5)

		require.NoError(t, cancelled.Cancel(t.Context()))
		holds(2, 4)
		wg.Go(func() { assert.NoError(t, waitedFor.Wait(t.Context())) })
		holds(3, 4)
		leave()
		holds(2, 3)
		time.Sleep(1500 * time.Millisecond)
		holds(1, 2)
		time.Sleep(byHand.Delay())
		holds(1, 1)
		wg.Wait()
		holds(0, 0)

		assert.Equal(t, map[string]int{"granted": 6, "taken": 3, "left": 1, "given_back": 2}, c.permits)
		assert.Len(t, c.waits, 3)
		assert.Equal(t, 3, c.others["woke"])
		assert.Equal(t, 6, c.shared, "of all questions together")
		assert.Equal(t, 2, c.asked["release false"])
	})
}

func TestWhatBecomesOfPermits(t *testing.T) {
	deadline := &fairlimit.RefusedError{Wait: time.Second}
	for _, c := range []struct {
		outcome string
		err     error
	}{
		{"refused", deadline},
		{"refused", fmt.Errorf("wrapped: %w", deadline)},
		{"refused", fairlimit.ErrTooManyQueued},
		{"refused", fairlimit.ErrFull},
		{"refused", fairlimit.ErrMissed},
		{"left", context.Canceled},
		{"left", context.DeadlineExceeded},
		{"left", fairlimit.ErrReservationOver},
		{"failed", fairlimit.ErrUnreachable},
		{"failed", fmt.Errorf("%w: %w", fairlimit.ErrUnreachable, context.DeadlineExceeded)},
		{"failed", fairlimit.ErrOutcomeUnknown},
		{"failed", fairlimit.ErrState},
		{"failed", errors.New("READONLY")},
	} {
		counts := newCounts()
		metrics.New(counts).Trace().Refused(3, c.err)
		assert.Equal(t, map[string]int{c.outcome: 3}, counts.permits, c.err)
	}
	counts := newCounts()
	trace := metrics.New(counts).Trace()
	trace.Missed(2, time.Second)
	trace.GivenBack(2, nil)
	trace.GivenBack(1, errors.New("it is not known whether it was"))
	trace.Lost()
	assert.Equal(t, map[string]int{"missed": 2, "given_back": 2}, counts.permits)
	assert.Equal(t, map[string]int{"woke": 1, "lost": 1}, counts.others)
}

// For the race detector.
func TestManyCallersAndLooksAtOnce(t *testing.T) {
	b := metrics.New(newCounts())
	trace := b.Trace()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			trace.Entered(1)
			trace.Reserved(1, time.Now())
			trace.Paused(time.Second)
			trace.FellBack(nil)
			b.Read(t.Context())
			trace.Unreserved(1, time.Now())
			trace.Left(1, 0, nil)
		})
	}
	all.Wait()
	assert.Zero(t, b.Read(t.Context()).CallersWaiting)
}

func TestAPauseRemainsAsLongAsRedisOrThisLimiterSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounts()
		b := metrics.New(c)
		remaining := func(want time.Duration) {
			t.Helper()
			assert.Equal(t, want, b.Read(t.Context()).PauseRemaining)
		}
		trace, l := b.Trace(), &limitertest.Standing{}
		remaining(0)
		trace.Paused(10 * time.Second)
		trace.Paused(4 * time.Second)
		remaining(10 * time.Second)
		time.Sleep(time.Second)
		remaining(9 * time.Second)

		b.Watch(l)
		remaining(9 * time.Second) // Redis has not heard of it
		trace.Asked("pause", 1, 0, errors.New("lost"))
		remaining(9 * time.Second)
		trace.Asked("pause", 1, 0, nil)
		l.As.Paused = 8 * time.Second
		remaining(8 * time.Second)
		l.As.Paused = time.Minute // another process has paused the queue, too
		remaining(time.Minute)
		l.As.Paused = 0 // another process has reset it
		remaining(0)
		l.Err = errors.New("silent")
		remaining(9 * time.Second)
		trace.Asked("reset", 1, 0, nil)
		remaining(0)
		trace.Paused(2 * time.Second)
		time.Sleep(3 * time.Second)
		remaining(0)
		assert.Equal(t, 3, c.others["paused"])
	})
}

func TestALookTakesNoLongerThanItsBoundOrItsCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := metrics.New(newCounts())
		assert.Nil(t, b.Read(t.Context()).Status, "nobody is watched")
		b.Watch(&limitertest.Standing{As: fairlimit.Status{Available: 4}})
		assert.Equal(t, 4, b.Read(t.Context()).Status.Available)
		b.Watch(silent{})
		began := time.Now()
		r := b.Read(t.Context())
		assert.Nil(t, r.Status)
		assert.EqualValues(t, 1, r.StatusFailures)
		assert.Equal(t, metrics.StatusBound, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), metrics.StatusBound/4)
		defer cancel()
		began = time.Now()
		assert.Nil(t, b.Read(ctx).Status)
		assert.Equal(t, metrics.StatusBound/4, time.Since(began))
		b.Watch(nil)
		assert.Nil(t, b.Read(t.Context()).Status)
	})
}

// silent is a limiter that never answers.
type silent struct{ fairlimit.Limiter }

func (silent) Status(ctx context.Context) (fairlimit.Status, error) {
	<-ctx.Done()
	return fairlimit.Status{}, ctx.Err()
}
