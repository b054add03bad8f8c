package faults_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// losses are all the ways in which a reply can be lost.
var losses = []redistest.Loss{redistest.Unsent, redistest.Unanswered, redistest.Cut, redistest.CutWithin}

// lossy calls f with every kind of client, behind a proxy. Each has go-redis'
// defaults, of which two matter: MaxRetries is 3, and ReadTimeout is 3 s.
func lossy(t *testing.T, f func(t *testing.T, proxy *redistest.Proxy, rdb redis.UniversalClient)) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		proxy := redistest.StartProxy(t)
		addr := redistest.Standalone(t).Options().Addr
		f(t, proxy, proxy.Client(&redis.Options{Addr: addr}))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		proxy := redistest.StartProxy(t)
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: redistest.Cluster(t).Options().Addrs, Dialer: proxy.Dial,
		})
		t.Cleanup(func() { redistest.Close(rdb) })
		f(t, proxy, rdb)
	})
}

// sent counts the commands that run a script.
func sent(proxy *redistest.Proxy) *atomic.Int64 {
	count := new(atomic.Int64)
	proxy.Watch(func(words []string) {
		if strings.HasPrefix(strings.ToLower(words[0]), "eval") {
			count.Add(1)
		}
	})
	return count
}

func TestALostReplyConsumesOnceAtMost(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, build maker) {
		lossy(t, func(t *testing.T, proxy *redistest.Proxy, rdb redis.UniversalClient) {
			for _, how := range losses {
				l := build(t, rdb, redistest.Name(t), fairlimit.PerHour(10))
				require.NoError(t, l.Wait(t.Context()), "the script is loaded")
				runs := sent(proxy)
				proxy.Lose(1, "evalsha", how)
				err := l.Wait(t.Context())
				require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown, how)
				require.NotErrorIs(t, err, context.DeadlineExceeded, how)
				require.Equal(t, int64(1), runs.Load(), "%v: it is not sent again", how)
				want := 8
				if how == redistest.Unsent {
					want = 9
				}
				require.Equal(t, want, status(t, l).Available, how)
			}
		})
	})
}

func TestALostReplyToAScriptSentInFullConsumesOnceAtMost(t *testing.T) {
	t.Parallel()
	for _, how := range losses {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.StartServer(t), redistest.StartProxy(t)
			rdb := proxy.Client(&redis.Options{Addr: server.Addr()})
			l := limiter(t, rdb, fairlimit.PerHour(10))
			runs := sent(proxy)
			proxy.Lose(1, "eval", how)
			require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrOutcomeUnknown)
			require.Equal(t, int64(2), runs.Load(),
				"once by its name, which the server does not know, and once in full")
			require.Contains(t, []int{9, 10}, status(t, l).Available)
		})
	}
}

func TestALostReplyToACancelGivesBackOnceAtMost(t *testing.T) {
	t.Parallel()
	lossy(t, func(t *testing.T, proxy *redistest.Proxy, rdb redis.UniversalClient) {
		for _, how := range losses {
			l := limiter(t, rdb, fairlimit.Quota{Permits: 2, Per: time.Hour})
			reserve := func(n int) *fairlimit.Reservation {
				r, err := l.ReserveN(t.Context(), n)
				require.NoError(t, err)
				return r
			}
			reserve(2)
			first, second := reserve(1), reserve(1) // at one moment
			require.NoError(t, reserve(1).Cancel(t.Context()), "the script is loaded")
			runs := sent(proxy)
			proxy.Lose(1, "evalsha", how)
			require.ErrorIs(t, second.Cancel(t.Context()), fairlimit.ErrOutcomeUnknown)
			require.NoError(t, second.Cancel(t.Context()), "the second time, it does nothing")
			require.Equal(t, int64(1), runs.Load())
			require.Contains(t, []int{1, 2}, status(t, l).Queued, "%v: the other keeps its turn", how)
			require.Positive(t, first.Delay())
		}
	})
}
