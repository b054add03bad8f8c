// Package redistest gives tests the servers they need: real redis-server
// processes, alone, as a cluster or under a sentinel, and an in-process one
// whose clock is the fake clock of a testing/synctest bubble.
//
// Real servers listen on loopback ports, keep nothing on disk, and end with the
// test binary, however it ends. Without a redis-server the test is skipped, or
// fails if FAIRLIMIT_REQUIRE_REDIS=1. FAIRLIMIT_REDIS_SERVER names another
// binary, such as valkey-server.
//
// Tests of one binary run in parallel on shared servers, so nothing here
// flushes them: each test works on names of its own, from [Name].
package redistest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var names atomic.Int64

// Name returns a name that no other call in this test binary returns, made from
// the test's own.
func Name(t testing.TB) string {
	return fmt.Sprintf("%s#%d", t.Name(), names.Add(1))
}

// Standalone returns a new client of a server that all tests of the binary
// share; it is started by the first of them and never flushed. The client is
// closed when the test ends.
func Standalone(t testing.TB) *redis.Client {
	t.Helper()
	needRedis(t)
	s, err := standalone()
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { Close(rdb) })
	return rdb
}

var standalone = sync.OnceValues(func() (*Server, error) { return Start() })

// OnEach runs f twice: as subtest "miniredis" in a bubble on a fake clock, see
// [Bubble], and as subtest "redis" on [Standalone] in real time.
func OnEach(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		Bubble(t, func(t *testing.T, rdb *redis.Client) { f(t, rdb) })
	})
	t.Run("redis", func(t *testing.T) {
		f(t, Standalone(t))
	})
}

// Nowhere returns a client of a server that is not there. It is for tests that
// do no I/O, or that want to see it fail.
func Nowhere(t testing.TB) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	t.Cleanup(func() { Close(rdb) })
	return rdb
}

func needRedis(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath(ServerProgram())
	switch {
	case err == nil:
	case os.Getenv("FAIRLIMIT_REQUIRE_REDIS") == "1":
		t.Fatalf("this test needs a real Redis: %v", err)
	default:
		t.Skipf("this test needs a real Redis: %v", err)
	}
}

// ServerProgram is the program that a server is, redis-server unless
// FAIRLIMIT_REDIS_SERVER names another.
func ServerProgram() string { return cmp.Or(os.Getenv("FAIRLIMIT_REDIS_SERVER"), "redis-server") }

// Kind calls f with a client, perhaps several times, each in a subtest.
type Kind = func(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient))

// Everywhere runs the test on every kind of client there is: of miniredis with a
// fake clock, of Redis, and of a Cluster. That of a Sentinel is one of Redis.
func Everywhere(t *testing.T, test func(t *testing.T, server Kind)) {
	t.Run("miniredis and redis", func(t *testing.T) {
		t.Parallel()
		test(t, OnEach)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T, f func(*testing.T, redis.UniversalClient)) { f(t, Cluster(t)) })
	})
}

// Hook stands between a client and its server for one command at a time.
type Hook func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

// ProcessHook calls the hook in place of the command.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h(ctx, cmd, next) }
}

// DialHook changes nothing.
func (Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing.
func (Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Parallel lets n tests of the binary run at a time, for a package whose tests
// mostly wait: for turns, for timeouts, for servers to start. Call it in
// TestMain. The flag -parallel still counts.
func Parallel(n int) {
	if err := flag.Set("test.parallel", fmt.Sprint(n)); err != nil {
		panic(err)
	}
}
