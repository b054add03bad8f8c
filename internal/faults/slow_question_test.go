package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// asking is what has to be back after five seconds though its ctx never ends.
// The methods are those that share questions; the others are in outage_test.go.
var asking = []string{"Wait", "Allow", "ReserveN"}

// overdue requires that each method of a limiter of its own is back when its
// question has taken five seconds.
func overdue(t *testing.T, connect func() redis.UniversalClient) {
	t.Helper()
	bystander := standBy(t)
	var all sync.WaitGroup
	for _, name := range asking {
		l := limiter(t, connect(), fairlimit.PerSecond(10))
		all.Go(func() {
			start := time.Now()
			assert.ErrorIs(t, calls(l)[name](context.Background()), fairlimit.ErrOutcomeUnknown, name)
			bystander.prompt(t, start, 5*time.Second, name)
		})
	}
	all.Wait()
}

// TestAQuestionOfSeveralRoundTripsEndsInTime has each reply come just before
// the client would give up, on connections that are new.
func TestAQuestionOfSeveralRoundTripsEndsInTime(t *testing.T) {
	t.Parallel()
	for kind, heedsCtx := range map[string]bool{"as usual": false, "with ContextTimeoutEnabled": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, p := redistest.StartServer(t), redistest.StartProxy(t)
			connect := func() redis.UniversalClient {
				return p.Client(&redis.Options{
					Addr: s.Addr(), ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: heedsCtx,
				})
			}
			p.Delay(2900 * time.Millisecond)
			overdue(t, connect)
			p.Heal()
			require.NoError(t, limiter(t, connect(), fairlimit.PerSecond(10)).Wait(t.Context()))
		})
	}
}

// TestAConnectionThatIsReplacedHoldsNobodyForLonger is the same for limiters
// that were answered before, by connections that are broken now. There is one
// exception: a caller that was answered just before asks by itself, and waits as
// long as the client does, which is two slow replies here.
func TestAConnectionThatIsReplacedHoldsNobodyForLonger(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind     string
		heedsCtx bool
		since    time.Duration // the last answer
		bound    time.Duration
	}{
		{"after a moment", false, 150 * time.Millisecond, 5 * time.Second},
		{"at once, with ContextTimeoutEnabled", true, 0, 5 * time.Second},
		{"at once", false, 0, 10 * time.Second},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			s, p := redistest.StartServer(t), redistest.StartProxy(t)
			rdb := p.Client(&redis.Options{
				Addr: s.Addr(), ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: test.heedsCtx,
			})
			l := limiter(t, rdb, fairlimit.PerSecond(10))
			require.NoError(t, l.Wait(context.Background()))
			bystander := standBy(t)
			p.Delay(2900 * time.Millisecond)
			p.Cut()
			time.Sleep(test.since)
			start := time.Now()
			err := l.Wait(context.Background())
			if test.bound == 5*time.Second {
				require.Error(t, err)
			}
			bystander.prompt(t, start, test.bound, "Wait")
			t.Logf("%v", time.Since(start).Round(100*time.Millisecond))
		})
	}
}

func TestAClusterThatStandsStillHoldsNobodyForLonger(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	nodes := append([]*redistest.Server{g.Replica}, g.Masters...)
	for _, kind := range []string{"as usual", "with ContextTimeoutEnabled"} {
		t.Run(kind, func(t *testing.T) {
			var clients []*redis.ClusterClient
			for _, node := range nodes {
				node.Pause()
			}
			defer func() { // a client that is closed during a call waits for it
				for _, node := range nodes {
					node.Resume()
				}
				for _, rdb := range clients {
					redistest.Close(rdb)
				}
			}()
			overdue(t, func() redis.UniversalClient {
				rdb := redis.NewClusterClient(&redis.ClusterOptions{
					Addrs: g.Client.Options().Addrs, ContextTimeoutEnabled: kind != "as usual",
				})
				clients = append(clients, rdb)
				return rdb
			})
		})
	}
}
