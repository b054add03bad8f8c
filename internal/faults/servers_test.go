package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestManyLimitersShareACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t)
	for name, e := range map[string][]fairlimit.Option{"fair": nil, "window": {fairlimit.WithEngine(window.New)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, rdb.ScriptFlush(t.Context()).Err(), "every node has to learn the scripts")
			var wg sync.WaitGroup
			for i := range 60 {
				wg.Go(func() {
					l, err := fairlimit.New(rdb, fmt.Sprintf("%s %d", redistest.Name(t), i),
						fairlimit.Every(50*time.Millisecond), e...)
					if !assert.NoError(t, err) {
						return
					}
					start := time.Now()
					for range 4 {
						assert.NoError(t, l.Wait(t.Context()))
					}
					assert.GreaterOrEqual(t, time.Since(start), 150*time.Millisecond)
					assert.NoError(t, l.Reset(t.Context()))
				})
			}
			wg.Wait()
		})
	}
}

func TestAClusterRefusesANameThatItCannotHold(t *testing.T) {
	t.Parallel()
	_, err := fairlimit.New(redistest.Cluster(t), "a}b", fairlimit.PerSecond(1), fairlimit.WithEngine(window.New))
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
}

func TestALimiterSharesARing(t *testing.T) {
	t.Parallel()
	a, b := redistest.StartServer(t), redistest.StartServer(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	defer redistest.Close(ring)
	for range 20 {
		l := limiter(t, ring, fairlimit.PerHour(1))
		require.NoError(t, l.Wait(t.Context()))
		allowed, err := l.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, allowed)
	}
}

func TestALimiterWorksUnderASentinel(t *testing.T) {
	t.Parallel()
	l := limiter(t, redistest.Sentinel(t).Client, fairlimit.Every(20*time.Millisecond))
	start := time.Now()
	for range 5 {
		require.NoError(t, l.Wait(t.Context()))
	}
	assert.GreaterOrEqual(t, time.Since(start), 80*time.Millisecond)
}

func TestAQueueIsSteeredUnderASentinel(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Sentinel(t).Client, redistest.Name(t)
	steer := func() *fairlimit.Queue {
		return named(t, rdb, name, fairlimit.PerHour(1), fairlimit.WithStoredQuota()).(*fairlimit.Queue)
	}
	one, other := steer(), steer()
	require.NoError(t, one.SetQuotas(t.Context(), fairlimit.PerMinute(2)))
	require.NoError(t, other.WaitN(t.Context(), 2))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	errs := make(chan error, 1)
	go func() { errs <- other.Wait(ctx) }()
	require.Eventually(t, func() bool { return status(t, one).Queued == 1 }, 10*time.Second, time.Millisecond,
		"by the quota of an hour it would be refused")
	require.NoError(t, one.Pause(t.Context(), time.Hour))
	require.Positive(t, status(t, other).Paused, "which brings the news")
	require.ErrorIs(t, <-errs, fairlimit.ErrPaused)
	assert.Eventually(t, func() bool { return status(t, one).Queued == 0 }, 10*time.Second, time.Millisecond)
}
