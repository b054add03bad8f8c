package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// Kind calls f with a client, perhaps several times, each in a subtest.
type Kind = func(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient))

// Everywhere runs the test on every kind of server there is: miniredis with a
// fake clock, Redis, a Cluster, and Redis under a Sentinel.
func Everywhere(t *testing.T, test func(t *testing.T, server Kind)) {
	t.Run("miniredis and redis", func(t *testing.T) {
		t.Parallel()
		test(t, OnEach)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T, f func(*testing.T, redis.UniversalClient)) { f(t, Cluster(t)) })
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		group := Sentinel(t)
		t.Run("group", func(t *testing.T) { // it ends before the servers do
			test(t, func(t *testing.T, f func(*testing.T, redis.UniversalClient)) {
				rdb := redis.NewFailoverClient(&redis.FailoverOptions{
					MasterName: "fairlimit", SentinelAddrs: []string{group.Sentinel.Addr()},
				})
				defer Close(rdb)
				f(t, rdb)
			})
		})
	})
}
