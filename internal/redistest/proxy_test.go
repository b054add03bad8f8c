package redistest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
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

func TestAProxyPassesEverythingOn(t *testing.T) {
	proxy, rdb, _ := throughProxy(t)
	var wg sync.WaitGroup
	for range 20 {
		key := redistest.Name(t)
		wg.Go(func() {
			big := strings.Repeat("x\r\n", 100_000)
			assert.NoError(t, rdb.Set(t.Context(), key, big, time.Minute).Err())
			got, err := rdb.Get(t.Context(), key).Result()
			assert.NoError(t, err)
			assert.True(t, big == got, "%d bytes are not what was sent", len(got))
			assert.ErrorIs(t, rdb.Get(t.Context(), key+"no").Err(), redis.Nil)
			info, err := rdb.HGetAll(t.Context(), key+"no").Result()
			assert.NoError(t, err)
			assert.Empty(t, info)
			_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for range 100 {
					p.Incr(t.Context(), key+"n")
				}
				return nil
			})
			assert.NoError(t, err)
			assert.Equal(t, "100", rdb.Get(t.Context(), key+"n").Val())
		})
	}
	wg.Wait()
	assert.Zero(t, proxy.Lost())
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

func TestAFrozenProxyHoldsEverythingUntilItIsHealed(t *testing.T) {
	proxy, rdb, direct := throughProxy(t)
	impatient := proxy.Client(&redis.Options{
		Addr: direct.Options().Addr, MaxRetries: -1, ReadTimeout: 100 * time.Millisecond,
	})
	require.Eventually(t, func() bool { return impatient.Ping(t.Context()).Err() == nil }, 10*time.Second,
		time.Millisecond)
	proxy.Freeze()
	for range 3 { // over the connection that is there, and over new ones
		require.Error(t, impatient.Incr(t.Context(), "n").Err())
	}
	require.ErrorIs(t, direct.Get(t.Context(), "n").Err(), redis.Nil)
	proxy.Heal()
	require.NoError(t, rdb.Incr(t.Context(), "n").Err())
	require.Eventually(t, func() bool {
		n, _ := direct.Get(t.Context(), "n").Int()
		return n >= 2
	}, 5*time.Second, time.Millisecond, "what was under way arrives late")
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
