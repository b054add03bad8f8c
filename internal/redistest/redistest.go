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
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

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
	rdb := redis.NewClient(s.patient())
	t.Cleanup(func() { Close(rdb) })
	return rdb
}

var standalone = sync.OnceValues(func() (*Server, error) { return launch(alone()) })

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
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { Close(rdb) })
	return rdb
}

func needRedis(t testing.TB) {
	t.Helper()
	for _, program := range []string{ServerProgram(), "sh"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		} else if os.Getenv("FAIRLIMIT_REQUIRE_REDIS") == "1" {
			t.Fatalf("this test needs a real Redis: %v", err)
		} else {
			t.Skipf("this test needs a real Redis: %v", err)
		}
	}
}

// ServerProgram is the program that a server is, redis-server unless
// FAIRLIMIT_REDIS_SERVER names another.
func ServerProgram() string { return cmp.Or(os.Getenv("FAIRLIMIT_REDIS_SERVER"), "redis-server") }
