package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// throughProxy is a server, a proxy before it, and a client of each. That of
// the proxy never tries again, and waits for a reply until there is one.
func throughProxy(t *testing.T) (proxy *redistest.Proxy, rdb, direct *redis.Client) {
	server := redistest.StartServer(t)
	proxy = redistest.StartProxy(t)
	rdb = proxy.Client(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ReadTimeout: time.Minute})
	require.NoError(t, rdb.Ping(t.Context()).Err())
	return proxy, rdb, server.Client()
}

// lose sends an INCR whose reply will be lost. It returns when the proxy has
// the command.
func lose(t *testing.T, proxy *redistest.Proxy, rdb *redis.Client) <-chan error {
	before := proxy.Lost()
	failed := make(chan error, 1)
	go func() { failed <- rdb.Incr(context.WithoutCancel(t.Context()), "n").Err() }()
	require.Eventually(t, func() bool { return proxy.Lost() == before+1 }, 10*time.Second, time.Millisecond)
	return failed
}

func TestAProxyLosesReplies(t *testing.T) {
	for _, c := range []struct {
		how  redistest.Loss
		runs int
	}{{redistest.Unsent, 0}, {redistest.Unanswered, 1}, {redistest.Cut, 1}, {redistest.CutWithin, 1}} {
		t.Run(c.how.String(), func(t *testing.T) {
			proxy, rdb, direct := throughProxy(t)
			proxy.Lose(2, "Incr", c.how)
			require.NoError(t, rdb.Ping(t.Context()).Err(), "another word")
			for range 2 {
				failed := lose(t, proxy, rdb)
				if c.how == redistest.Unanswered {
					select {
					case err := <-failed:
						t.Errorf("the connection should stay open: %v", err)
					case <-time.After(20 * time.Millisecond):
						proxy.Cut()
					}
				}
				require.Error(t, <-failed)
			}
			require.Eventually(t, func() bool {
				n, _ := direct.Get(t.Context(), "n").Int()
				return n == 2*c.runs
			}, 10*time.Second, time.Millisecond)
			require.NoError(t, rdb.Incr(t.Context(), "n").Err(), "no more than two")
		})
	}
}

func TestAProxyCutsConnections(t *testing.T) {
	proxy, rdb, direct := throughProxy(t)
	proxy.Cut()
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, 5*time.Second, time.Millisecond)

	proxy.Lose(1, "incr", redistest.Unanswered)
	failed := lose(t, proxy, rdb)
	proxy.HalfClose()
	require.Error(t, <-failed)
	require.Eventually(t, func() bool { return direct.Get(t.Context(), "n").Val() == "1" },
		5*time.Second, time.Millisecond, "it was not heard that the command has run")
}
