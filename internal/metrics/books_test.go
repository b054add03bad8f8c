package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// counts is a meter that counts: by the name of the metric without its first
// word, and by its labels.
type counts struct {
	mu       sync.Mutex
	added    map[string]int
	recorded map[string]int
}

func newCounts() *counts { return &counts{added: map[string]int{}, recorded: map[string]int{}} }

func (c *counts) Add(m *metrics.Metric, n int, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.added[strings.Join(append([]string{strings.TrimPrefix(m.Name, "fairlimit.")}, labels...), " ")] += n
	}
}

func (c *counts) Record(m *metrics.Metric, _ float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorded[strings.TrimPrefix(m.Name, "fairlimit.")]++
}

func TestWhoWaitsIsCounted(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		c := newCounts()
		b := metrics.New(c)
		l, err := fairlimit.NewQueue(rdb, "office", fairlimit.PerSecond(1), fairlimit.WithGuard(0),
			fairlimit.WithTrace(b.Trace()))
		require.NoError(t, err)
		waiting := func(callers int) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, callers, b.Read(t.Context()).CallersWaiting)
		}
		require.NoError(t, l.Wait(t.Context())) // at 0 s
		waiting(0)
		leaving, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, l.Wait(t.Context())) }) // at 1 s
		synctest.Wait()
		wg.Go(func() { assert.ErrorIs(t, l.Wait(leaving), context.Canceled) }) // at 2 s
		waiting(2)
		waitedFor, err := l.ReserveN(t.Context(), 1) // at 3 s
		require.NoError(t, err)
		cancelled, err := l.ReserveN(t.Context(), 1) // at 4 s
		require.NoError(t, err)
		require.NoError(t, cancelled.Cancel(t.Context()))
		waiting(2)
		wg.Go(func() { assert.NoError(t, waitedFor.Wait(t.Context())) })
		waiting(3)
		leave()
		waiting(2)
		wg.Wait()
		waiting(0)

		for what, n := range map[string]int{
			"permits granted": 5, "permits taken": 3, "permits left": 1, "permits given_back": 2,
		} {
			assert.Equal(t, n, c.added[what], what)
		}
		assert.Equal(t, map[string]int{"wait.duration": 3, "wake.lateness": 3, "question.callers": 5}, c.recorded)
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
		{"refused", fairlimit.ErrMissed},
		{"left", context.Canceled},
		{"left", context.DeadlineExceeded},
		{"left", fairlimit.ErrReservationOver},
		{"invalid", fairlimit.ErrExceedsQuota},
		{"invalid", fairlimit.ErrUnknownUnit},
		{"failed", fairlimit.ErrUnreachable},
		{"failed", fmt.Errorf("%w: %w", fairlimit.ErrUnreachable, context.DeadlineExceeded)},
		{"failed", fairlimit.ErrOutcomeUnknown},
		{"failed", fairlimit.ErrState},
		{"failed", errors.New("READONLY")},
	} {
		counts := newCounts()
		metrics.New(counts).Trace().Refused(3, c.err)
		assert.Equal(t, map[string]int{"permits " + c.outcome: 3}, counts.added, c.err)
	}
	counts := newCounts()
	trace := metrics.New(counts).Trace()
	trace.Missed(2, time.Second)
	trace.GivenBack(2, nil)
	trace.GivenBack(1, errors.New("it is not known whether it was"))
	trace.Lost()
	assert.Equal(t, map[string]int{"permits missed": 2, "permits given_back": 2, "losses": 1}, counts.added)
	assert.Equal(t, map[string]int{"wake.lateness": 1}, counts.recorded)
}

// For the race detector.
func TestManyCallersAndLooksAtOnce(t *testing.T) {
	b := metrics.New(newCounts())
	trace := b.Trace()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			trace.Entered(1)
			trace.Paused(time.Second)
			trace.FellBack(nil)
			b.Read(t.Context())
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
		assert.Equal(t, 3, c.added["pauses"])
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
