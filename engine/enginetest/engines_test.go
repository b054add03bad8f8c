package enginetest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/engine/enginetest"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// engines are all there are: a new one is a line here.
var engines = map[string]engine.Builder{
	"fair":   fair.New,
	"window": window.New,
}

func TestEnginesOnMiniredisAndRedis(t *testing.T) {
	each(t, redistest.OnEach)
}

func TestEnginesOnACluster(t *testing.T) {
	each(t, func(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) { f(t, redistest.Cluster(t)) })
}

func TestEnginesUnderASentinel(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	t.Run("group", func(t *testing.T) { // which ends before the servers do
		each(t, func(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
			rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "fairlimit", SentinelAddrs: []string{group.Sentinel.Addr()}})
			defer func() { _ = rdb.Close() }()
			f(t, rdb)
		})
	})
}

func each(t *testing.T, server enginetest.Server) {
	for name, build := range engines {
		t.Run(name, func(t *testing.T) { enginetest.Run(t, build, server) })
	}
}
