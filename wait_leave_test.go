package fairlimit_test

import (
	"context"
	"sync"
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
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, r.Cancel(t.Context())) // Redis knows the script now
		before := status(t, l).Available
		rdb.AddHook(late{by: 10 * time.Millisecond})
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Millisecond, cancel)
			start := time.Now()
			require.ErrorIs(t, l.Wait(ctx), context.Canceled)
			assert.LessOrEqual(t, time.Since(start), 30*time.Millisecond)
			require.Equal(t, before, status(t, l).Available)
		}
	})
}
