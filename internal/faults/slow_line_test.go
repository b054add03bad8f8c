package faults_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestWhatIsUnderWayWhenConnectionsHalfCloseIsConsumedOnceAtMost ends what clients hear while replies are still on their way.
func TestWhatIsUnderWayWhenConnectionsHalfCloseIsConsumedOnceAtMost(t *testing.T) {
	const callers, permits = 40, 1000
	proxy := redistest.StartProxy(t)
	rdb := proxy.Client(&redis.Options{Addr: redistest.StartServer(t).Addr()})
	name := redistest.Name(t)
	require.NoError(t, named(t, rdb, name, fairlimit.PerHour(permits)).Wait(t.Context()))
	proxy.Delay(20 * time.Millisecond)
	runs := sent(proxy)
	var ok, unknown atomic.Int64
	var calling sync.WaitGroup
	for range callers {
		l := named(t, rdb, name, fairlimit.PerHour(permits))
		calling.Go(func() {
			err := l.Wait(t.Context())
			switch {
			case err == nil:
				ok.Add(1)
			case assert.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown):
				unknown.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return runs.Load() > 0 }, 5*time.Second, time.Millisecond)
	proxy.HalfClose()
	calling.Wait()
	proxy.Heal()
	used := int64(permits-1) - int64(status(t, named(t, rdb, name, fairlimit.PerHour(permits))).Available)
	t.Logf("%d calls: %d succeeded, %d left open, %d used", callers, ok.Load(), unknown.Load(), used)
	assert.Positive(t, unknown.Load(), "this should break something")
	assert.LessOrEqual(t, runs.Load(), int64(callers), "nothing should be sent twice")
	assert.GreaterOrEqual(t, used, ok.Load())
	assert.LessOrEqual(t, used, ok.Load()+unknown.Load())
}

// TestSlowRepliesMakeTurnsLateAndNeverEarly delays each reply by more than the interval.
func TestSlowRepliesMakeTurnsLateAndNeverEarly(t *testing.T) {
	const delay, interval = 60 * time.Millisecond, 20 * time.Millisecond
	proxy := redistest.StartProxy(t)
	rdb := proxy.Client(&redis.Options{Addr: redistest.StartServer(t).Addr()})
	l := limiter(t, rdb, fairlimit.Every(interval))
	require.NoError(t, l.Wait(t.Context()))
	proxy.Delay(delay)

	ctx, cancel := context.WithTimeout(t.Context(), delay/2)
	defer cancel()
	err := l.Wait(ctx)
	require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)

	var calling sync.WaitGroup
	asked := time.Now()
	returned := make(chan time.Duration, 8)
	for range cap(returned) {
		calling.Go(func() {
			assert.NoError(t, l.Wait(t.Context()))
			returned <- time.Since(asked)
		})
	}
	calling.Wait()
	close(returned)
	last := time.Duration(0)
	for at := range returned {
		assert.GreaterOrEqual(t, at, delay)
		last = max(last, at)
	}
	assert.GreaterOrEqual(t, last, delay+time.Duration(cap(returned)-1)*interval, "each has a slot of its own")
	assert.Zero(t, status(t, l).Queued, "who left had its slot given back")
}
