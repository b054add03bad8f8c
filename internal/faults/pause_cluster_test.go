package faults_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAPauseIsNeverReadFromAReplica has clients that read from replicas, where
// what is known may be old.
func TestAPauseIsNeverReadFromAReplica(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	for _, node := range g.Masters { // until a replica has said how far it is, it is not asked
		require.Eventually(t, func() bool {
			ranges, err := node.Client().Do(t.Context(), "cluster", "slots").Slice()
			const withoutReplica = 3 // first slot, last slot, master
			return err == nil && slices.ContainsFunc(ranges, func(r any) bool {
				return len(r.([]any)) > withoutReplica
			})
		}, 30*time.Second, 10*time.Millisecond)
	}
	name := servedBy(t, g, g.Masters[0])
	for how, options := range map[string]*redis.ClusterOptions{
		"read only":        {ReadOnly: true},
		"route randomly":   {RouteRandomly: true},
		"route by latency": {RouteByLatency: true},
	} {
		options.Addrs = []string{g.Masters[0].Addr(), g.Masters[1].Addr()}
		rdb := redis.NewClusterClient(options)
		defer redistest.Close(rdb)
		require.NoError(t, rdb.Ping(t.Context()).Err(), "it knows the cluster")
		for range 100 {
			require.ErrorIs(t, rdb.Get(t.Context(), limitertest.Key(name)+"x").Err(), redis.Nil)
		}
		for range 20 {
			q := named(t, rdb, name, fairlimit.Every(time.Millisecond), fairlimit.WithPrefix(how)).(*fairlimit.Queue)
			require.NoError(t, q.Wait(t.Context()))
			require.NoError(t, q.Pause(t.Context(), time.Minute))
			assert.Positive(t, status(t, q).Paused)
			require.NoError(t, q.Reset(t.Context()))
		}
	}
	info, err := g.Replica.Client().Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	require.Contains(t, info, "cmdstat_get:", "these clients do read from a replica")
	assert.False(t, regexp.MustCompile(`cmdstat_(eval|evalsha|eval_ro|evalsha_ro):`).MatchString(info),
		"no script ran there")
}
