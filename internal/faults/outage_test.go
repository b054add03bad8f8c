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

// TestALimiterRecoversWhateverTheClientsTimeouts holds with a client that would
// wait for ever, and callers that would, too.
func TestALimiterRecoversWhateverTheClientsTimeouts(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	defer redistest.Close(rdb)
	l := limiter(t, rdb, fairlimit.PerHour(10))
	require.NoError(t, l.Wait(t.Context()))

	bystander := standBy(t)
	s.Pause()
	var all sync.WaitGroup
	for _, name := range []string{"Wait", "Status"} {
		all.Go(func() {
			assert.ErrorIs(t, bystander.overdue(t, name, calls(l)[name]), fairlimit.ErrOutcomeUnknown, name)
		})
	}
	all.Wait()
	s.Resume()
	require.NoError(t, l.Wait(t.Context()))
	assert.Contains(t, []int{7, 8}, status(t, l).Available, "the call without an answer consumed once or not at all")
}

func TestAPausedServerLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	l := limiter(t, s.Client(), fairlimit.PerHour(1))
	require.NoError(t, l.Wait(t.Context()))
	bystander := standBy(t)
	s.Pause()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := bystander.prompt(t, 100*time.Millisecond, "Wait", l.Wait)
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
			bystander := standBy(t)
			server, proxy := redistest.StartServer(t), redistest.StartProxy(t)
			rdb := proxy.Client(&redis.Options{Addr: server.Addr(), PoolSize: pool})
			if name == "refuses" { // a proxy would take the connection first
				rdb = redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: pool})
				defer redistest.Close(rdb)
			}
			l := limiter(t, rdb, fairlimit.PerSecond(1000))
			require.NoError(t, l.Wait(t.Context()))
			before := runtime.NumGoroutine()
			f.dies(server, proxy)

			var inside atomic.Int64
			var wg sync.WaitGroup
			all, most := slices.Collect(maps.Values(calls(l))), 0
			for i := range count {
				wg.Go(func() {
					inside.Add(1)
					defer inside.Add(-1)
					err := bystander.prompt(t, patience, name, all[i%len(all)])
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

			f.revives(server, proxy)
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return l.Wait(ctx) == nil
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// TestAConnectionThatIsReplacedHoldsNobodyForLonger has limiters that were
// answered before, by connections that are broken now. Each reply comes just
// before the client would give up.
func TestAConnectionThatIsReplacedHoldsNobodyForLonger(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind     string
		heedsCtx bool
	}{{"as it is", false}, {"with ContextTimeoutEnabled", true}} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			s, p := redistest.StartServer(t), redistest.StartProxy(t)
			rdb := p.Client(&redis.Options{
				Addr: s.Addr(), ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: test.heedsCtx,
			})
			l := limiter(t, rdb, fairlimit.PerSecond(10))
			require.NoError(t, l.Wait(t.Context()))
			bystander := standBy(t)
			p.Delay(2900 * time.Millisecond)
			p.Cut()
			start := time.Now()
			err := l.Wait(t.Context())
			bystander.back(t, start, answerDue, "Wait")
			require.Error(t, err)
		})
	}
}

func TestAClusterThatStandsStillHoldsNobodyForLonger(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	nodes := append([]*redistest.Server{g.Replica}, g.Masters...)
	for _, node := range nodes {
		node.Pause()
	}
	bystander := standBy(t)
	var all sync.WaitGroup
	for _, heedsCtx := range []bool{false, true} {
		for _, name := range []string{"Wait", "Allow", "ReserveN"} { // which share questions
			rdb := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: g.Client.Options().Addrs, ContextTimeoutEnabled: heedsCtx,
			})
			defer redistest.Close(rdb)
			l := limiter(t, rdb, fairlimit.PerSecond(10))
			all.Go(func() {
				assert.ErrorIs(t, bystander.overdue(t, name, calls(l)[name]), fairlimit.ErrOutcomeUnknown, name)
			})
		}
	}
	all.Wait()
	for _, node := range nodes { // a client that is closed during a call waits for it
		node.Resume()
	}
}

// counted is a fallback that counts what it lets through.
type counted struct{ permits atomic.Int64 }

func (c *counted) WaitN(_ context.Context, n int) error {
	c.permits.Add(int64(n))
	return nil
}

func TestAMissedTurnIsNoFailureOfRedis(t *testing.T) {
	t.Parallel()
	var f counted
	fellBack := func(because error) { assert.NotErrorIs(t, because, fairlimit.ErrMissed) } // nil is Redis's return
	l := limiter(t, redistest.Standalone(t), fairlimit.PerSecond(200), fairlimit.WithMaxLateness(time.Microsecond),
		fairlimit.WithFallback(&f), fairlimit.WithTrace(&fairlimit.Trace{FellBack: fellBack}))
	missed := 0
	for range 30 {
		if err := l.Wait(t.Context()); err != nil {
			require.ErrorIs(t, err, fairlimit.ErrMissed)
			missed++
		}
	}
	assert.Positive(t, missed)
}
