package faults_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestWhatIsUnderWayWhenConnectionsHalfCloseIsConsumedOnceAtMost ends what
// clients hear, while what they say still arrives.
func TestWhatIsUnderWayWhenConnectionsHalfCloseIsConsumedOnceAtMost(t *testing.T) {
	t.Parallel()
	const callers, permits = 20, 1000
	proxy := redistest.StartProxy(t)
	rdb := proxy.Client(&redis.Options{
		Addr: redistest.StartServer(t).Addr(), PoolSize: callers, ReadTimeout: time.Minute,
	})
	l := named(t, rdb, t.Name(), fairlimit.PerHour(permits))
	require.NoError(t, l.Wait(t.Context()), "the script is loaded")
	runs := sent(proxy)
	proxy.Lose(callers, "evalsha", redistest.Unanswered) // until then, nobody hears anything
	errs := callAtOnce(t, rdb, callers, permits)
	require.Eventually(t, func() bool { return proxy.Lost() == callers }, 10*time.Second, time.Millisecond)
	proxy.HalfClose()
	for range callers {
		require.ErrorIs(t, <-errs, fairlimit.ErrOutcomeUnknown)
	}
	require.EqualValues(t, callers, runs.Load(), "nothing should be sent twice")
	for err := range callAtOnce(t, rdb, callers, permits) {
		require.NoError(t, err, "on new connections they go on")
	}
	require.Eventually(t, func() bool { return status(t, l).Available == permits-1-2*callers },
		10*time.Second, time.Millisecond, "each was consumed once")
}

// callAtOnce starts callers, each on a limiter of its own, as if each were a
// process. It returns their errors. The channel is closed when all are back.
func callAtOnce(t *testing.T, rdb redis.UniversalClient, callers, permits int) <-chan error {
	errs := make(chan error, callers)
	var calling sync.WaitGroup
	for range callers {
		l := named(t, rdb, t.Name(), fairlimit.PerHour(permits))
		calling.Go(func() { errs <- l.Wait(t.Context()) })
	}
	go func() {
		calling.Wait()
		close(errs)
	}()
	return errs
}

// TestSlowRepliesMakeTurnsLateAndNeverEarly delays each reply by more than the
// interval.
func TestSlowRepliesMakeTurnsLateAndNeverEarly(t *testing.T) {
	t.Parallel()
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
	assert.Eventually(t, func() bool { return status(t, l).Queued == 0 }, 10*time.Second, time.Millisecond,
		"who left had its slot given back")
}
