package faults_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
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

// TestALimiterRecoversWhateverTheClientsTimeouts holds with clients that would
// wait for ever, and callers that would, too.
func TestALimiterRecoversWhateverTheClientsTimeouts(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	var limiters []fairlimit.Reserver
	for _, heedsCtx := range []bool{false, true} {
		rdb := redis.NewClient(&redis.Options{
			Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1, ContextTimeoutEnabled: heedsCtx,
		})
		defer redistest.Close(rdb)
		limiters = append(limiters, limiter(t, rdb, fairlimit.PerHour(10)))
		require.NoError(t, limiters[len(limiters)-1].Wait(t.Context()))
	}
	s.Pause()
	var all sync.WaitGroup
	for _, l := range limiters {
		for _, name := range []string{"Wait", "Status"} {
			all.Go(func() {
				assert.ErrorIs(t, overdue(t, name, calls(l)[name]), fairlimit.ErrOutcomeUnknown, name)
			})
		}
	}
	all.Wait()
	s.Resume()
	for _, l := range limiters {
		require.NoError(t, l.Wait(t.Context()))
		assert.Contains(t, []int{7, 8}, status(t, l).Available, "what had no answer consumed once or not at all")
	}
}

func TestAPausedServerLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	l := limiter(t, s.Client(), fairlimit.PerHour(1))
	require.NoError(t, l.Wait(t.Context()))
	s.Pause()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := prompt(t, 100*time.Millisecond, "Wait", l.Wait)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	s.Resume()
	require.Eventually(t, func() bool {
		status, err := l.Status(t.Context())
		return err == nil && status.Queued == 0 && status.Delay <= time.Hour
	}, 10*time.Second, 10*time.Millisecond, "those who left should have been granted nothing, or have given it back")
}

// TestADeadServerPilesNothingUp calls hundreds of times a second while the
// server is dead, with the client's default timeouts, which are seconds.
func TestADeadServerPilesNothingUp(t *testing.T) {
	const (
		rate     = 5 * time.Millisecond // between calls
		patience = 100 * time.Millisecond
		count    = 150
		pool     = 4
	)
	for name, f := range map[string]struct{ dies, revives func(*redistest.Server) }{
		"refuses": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"stopped": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.StartServer(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: pool})
			defer redistest.Close(rdb)
			l := limiter(t, rdb, fairlimit.PerSecond(1000))
			require.NoError(t, l.Wait(t.Context()))
			before := runtime.NumGoroutine()
			f.dies(server)

			var inside atomic.Int64
			var wg sync.WaitGroup
			all, most := slices.Collect(maps.Values(calls(l))), 0
			for i := range count {
				wg.Go(func() {
					inside.Add(1)
					defer inside.Add(-1)
					err := prompt(t, patience, name, all[i%len(all)])
					assert.True(t, errors.Is(err, context.DeadlineExceeded) ||
						errors.Is(err, fairlimit.ErrUnreachable) ||
						errors.Is(err, fairlimit.ErrOutcomeUnknown), "%v", err)
				})
				most = max(most, runtime.NumGoroutine()-int(inside.Load()))
				time.Sleep(rate) // callers come one by one
			}
			wg.Wait()
			t.Logf("at most %d goroutines besides the callers', %d connections", most, rdb.PoolStats().TotalConns)
			assert.LessOrEqual(t, int(rdb.PoolStats().TotalConns), pool)
			assert.LessOrEqual(t, most, before+6*pool+20, "what is left behind is bound by the pool, not by the calls")

			f.revives(server)
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return l.Wait(ctx) == nil
			}, 10*time.Second, time.Millisecond)
		})
	}
}

func TestAMissedTurnIsNoFailureOfRedis(t *testing.T) {
	t.Parallel()
	fellBack := func(because error) { assert.NotErrorIs(t, because, fairlimit.ErrMissed) } // nil is Redis's return
	l := limiter(t, redistest.Standalone(t), fairlimit.PerSecond(200), fairlimit.WithMaxLateness(time.Microsecond),
		fairlimit.WithFallback(fairlimit.FailOpen), fairlimit.WithTrace(&fairlimit.Trace{FellBack: fellBack}))
	missed := 0
	for range 30 {
		if err := l.Wait(t.Context()); err != nil {
			require.ErrorIs(t, err, fairlimit.ErrMissed)
			missed++
		}
	}
	assert.Positive(t, missed)
}
