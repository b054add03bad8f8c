package fairlimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// laden is an engine that grants everything in an hour and takes its time for
// what is given back, as a server does that many callers leave at once.
type laden struct {
	*stub
	each time.Duration
}

func (e *laden) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		answers[i] = refused(time.Hour)
		if r.MaxWait > time.Hour {
			answers[i] = granted(time.Hour, r.N)
		}
	}
	return answers, nil
}

func (e *laden) GiveBack(ctx context.Context, grants []engine.Grant) error {
	time.Sleep(e.each * time.Duration(len(grants)))
	return e.stub.GiveBack(ctx, grants)
}

// TestThoseWhoLeaveTogetherHoldNobodyUp has 5,000 waiters leave at once.
func TestThoseWhoLeaveTogetherHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 5_000
		e := &laden{&stub{queues: true}, 50 * time.Microsecond} // a quarter of a second in all
		build := func(engine.Config) (engine.Engine, error) { return e, nil }
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() { assert.ErrorIs(t, l.Wait(ctx), context.Canceled) })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		for range 5 {
			start := time.Now()
			_, err := l.Allow(t.Context())
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(start), 50*time.Millisecond)
		}
		all.Wait()
		time.Sleep(2 * time.Second)
		assert.Len(t, e.givenBack(), waiters)
	})
}

// TestOneWhoLeavesDuringTheCallHasItsPermitBack is on a line whose answers take
// ten milliseconds, for callers that leave after five.
func TestOneWhoLeavesDuringTheCallHasItsPermitBack(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.PerHour(100))
		require.NoError(t, l.Wait(t.Context()))
		rdb.AddHook(slow{10 * time.Millisecond})
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Millisecond, cancel)
			start := time.Now()
			require.ErrorIs(t, l.Wait(ctx), context.Canceled)
			assert.LessOrEqual(t, time.Since(start), 30*time.Millisecond)
			require.Equal(t, 99, status(t, l).Available)
		}
	})
}

// TestATrialIsNotSpentOnACallerThatMayNotQueue has callers come after Redis is
// back, while the turns that were granted before are as many as may be held.
func TestATrialIsNotSpentOnACallerThatMayNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e := &ailing{stub: &stub{queues: true, calls: make(chan *call)}, status: func() error { return assert.AnError }}
		l := e.limiter(t, fairlimit.WithMaxQueued(3), fairlimit.WithFallback(&f),
			fairlimit.WithEngine(func(engine.Config) (engine.Engine, error) { return e, nil }))
		held := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(granted(time.Minute, 1))
		synctest.Wait()
		e.fail(t, l, fairlimit.ErrUnreachable)
		held2 := lineUp(t.Context(), l, 2, 2)
		require.NoError(t, <-held2)
		r := l.(fairlimit.Reserver)

		e.statusIs(func() error { return nil })
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()), "this one starts the probe")
		synctest.Wait()
		before := f.permits.Load()
		for range 100 {
			require.ErrorIs(t, l.WaitN(t.Context(), 3), fairlimit.ErrTooManyQueued)
			_, err := r.ReserveN(t.Context(), 3)
			require.ErrorIs(t, err, fairlimit.ErrTooManyQueued)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, before, f.permits.Load(), "the fallback decides no longer")

		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs, "whoever may queue tries")
		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs, "and then all do")
		require.NoError(t, <-held)
	})
}

// TestAFallbackDecidesNoLongerOnceRedisIsBack is the same on a real server.
func TestAFallbackDecidesNoLongerOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	var f second
	l := limiter(t, s.Client(), fairlimit.Every(time.Minute), fairlimit.WithMaxQueued(2), fairlimit.WithFallback(&f))
	require.NoError(t, l.Wait(t.Context()))
	for range 2 {
		_, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	s.Kill()
	var refused atomic.Int64
	_, err := l.Allow(t.Context()) // finds out that Redis fails
	require.Error(t, err)
	require.NoError(t, l.Wait(t.Context()))
	s.Restart()
	require.Eventually(t, func() bool {
		before := f.permits.Load()
		for range 5 {
			if err := l.Wait(t.Context()); err != nil {
				assert.ErrorIs(t, err, fairlimit.ErrTooManyQueued)
				refused.Add(1)
			}
		}
		return f.permits.Load() == before
	}, 20*time.Second, 100*time.Millisecond)
	let := f.permits.Load()
	for range 100 {
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued)
		time.Sleep(20 * time.Millisecond)
	}
	assert.Equal(t, let, f.permits.Load())
}
