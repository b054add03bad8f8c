package faults_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderOf); addr != "" {
		holdTurns(addr)
	}
	redistest.Parallel(6)
	redistest.Main(m)
}

// The words that all tests of limiters share.
var (
	limiter = limitertest.New
	named   = limitertest.Named
	status  = limitertest.Status
)

// engines are the options that choose an engine, by its name.
var engines = map[string]fairlimit.Option{
	"fair": fairlimit.WithEngine(fair.New), "window": fairlimit.WithEngine(window.New),
}

// keyOf is the Redis key of a limiter on fair.
func keyOf(name string) string { return "fairlimit:{" + name + "}" }

// limiterOn is a limiter of ten permits an hour on an engine.
func limiterOn(t *testing.T, rdb redis.UniversalClient, engine fairlimit.Option) fairlimit.Limiter {
	l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(10), engine)
	require.NoError(t, err)
	return l
}

// client is a client of the server, with go-redis's defaults but for its
// ReadTimeout, and the faults on its connections.
func client(t *testing.T, addr string, patience time.Duration) (*redis.Client, *redistest.Faults) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: patience})
	t.Cleanup(func() { redistest.Close(rdb) })
	return rdb, redistest.Break(rdb)
}

// takeAll takes one permit after the other until there is none left, and returns
// how many it got.
func takeAll(t *testing.T, l fairlimit.Limiter) (granted int) {
	for {
		ok, err := l.Allow(t.Context())
		require.NoError(t, err)
		if !ok {
			return granted
		}
		granted++
	}
}

// unavailable reports whether an error says that Redis is away.
func unavailable(err error) bool {
	return errors.Is(err, fairlimit.ErrUnreachable) || errors.Is(err, fairlimit.ErrOutcomeUnknown)
}

// isRedis6 reports whether the servers are older than Redis 7, which has options that
// some faults need.
func isRedis6(t *testing.T) bool {
	v := redistest.Standalone(t).InfoMap(t.Context(), "server").Item("Server", "redis_version")
	return strings.HasPrefix(v, "6.")
}

// eventually waits for a condition.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 5*time.Millisecond, what)
}
