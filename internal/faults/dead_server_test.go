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

// TestADeadServerPilesNothingUp calls hundreds of times a second while the
// server is dead, with the client's default timeouts, which are seconds.
func TestADeadServerPilesNothingUp(t *testing.T) {
	const (
		rate     = 5 * time.Millisecond // between calls
		patience = 100 * time.Millisecond
	)
	duration := redistest.Long(time.Second, 2*time.Second)
	for name, f := range map[string]struct {
		dies, revives func(*redistest.Server, *redistest.Proxy)
	}{
		"refuses": {
			func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
			func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() },
		},
		"stopped": {
			func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() },
			func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() },
		},
		"black hole": {
			func(_ *redistest.Server, p *redistest.Proxy) { p.Freeze() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Heal() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.NoLeaks(t)
			bystander := standBy(t)
			server, proxy := redistest.StartServer(t), redistest.StartProxy(t)
			rdb := proxy.Client(&redis.Options{Addr: server.Addr()})
			if name == "refuses" { // a proxy would take the connection first
				rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
				defer redistest.Close(rdb)
			}
			l := limiter(t, rdb, fairlimit.PerSecond(1000))
			require.NoError(t, l.Wait(t.Context()))
			before := runtime.NumGoroutine()
			f.dies(server, proxy)

			var inside atomic.Int64
			var mu sync.Mutex
			var longest time.Duration
			var wg sync.WaitGroup
			all := slices.Collect(maps.Values(calls(l)))
			count, most := 0, 0
			for start := time.Now(); time.Since(start) < duration; count++ {
				call := all[count%len(all)]
				wg.Go(func() {
					inside.Add(1)
					defer inside.Add(-1)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					asked := time.Now()
					err := call(ctx)
					took := bystander.prompt(t, asked, patience, name)
					mu.Lock()
					longest = max(longest, took)
					mu.Unlock()
					assert.True(t, errors.Is(err, context.DeadlineExceeded) ||
						errors.Is(err, fairlimit.ErrUnreachable) ||
						errors.Is(err, fairlimit.ErrOutcomeUnknown), "%v", err)
				})
				most = max(most, runtime.NumGoroutine()-int(inside.Load()))
				time.Sleep(rate)
			}
			wg.Wait()
			stats := rdb.PoolStats()
			t.Logf("%d calls, the longest took %v of %v, at most %d goroutines besides the callers', %d connections",
				count, longest, patience, most, stats.TotalConns)
			assert.LessOrEqual(t, int(stats.TotalConns), rdb.Options().PoolSize)
			assert.LessOrEqual(t, most, before+6*rdb.Options().PoolSize,
				"what is left behind is bound by the pool, not by the calls")

			f.revives(server, proxy)
			revived := time.Now()
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.NoError(c, l.Wait(ctx))
			}, 10*time.Second, time.Millisecond)
			t.Logf("goes on %v after the server does", time.Since(revived))
		})
	}
}
