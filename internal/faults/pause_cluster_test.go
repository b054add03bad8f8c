package faults_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAPauseIsNeverReadFromAReplica has clients that read from replicas, one of
// which stands still, so that what it knows is old.
func TestAPauseIsNeverReadFromAReplica(t *testing.T) {
	t.Parallel()
	const within, interval, callers, pause = 600 * time.Millisecond, 100 * time.Millisecond, 12, 1200 * time.Millisecond
	g := redistest.StartCluster(t)
	for _, node := range append(g.Masters, g.Replica) { // nobody takes over here
		require.NoError(t, node.Client().ConfigSet(t.Context(), "cluster-node-timeout", "15000").Err())
	}
	runs := func(node *redistest.Server) bool {
		info, err := node.Client().Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		return regexp.MustCompile(`cmdstat_(eval|evalsha|eval_ro|evalsha_ro):`).MatchString(info)
	}
	for _, node := range g.Masters { // until a replica has said how far it is, it is not asked
		require.Eventually(t, func() bool {
			ranges, err := node.Client().Do(t.Context(), "cluster", "slots").Slice()
			const withoutReplica = 3 // first slot, last slot, master
			return err == nil && slices.ContainsFunc(ranges, func(r any) bool {
				return len(r.([]any)) > withoutReplica
			})
		}, 30*time.Second, 10*time.Millisecond)
	}
	all := map[string]*redis.ClusterClient{}
	for how, options := range map[string]*redis.ClusterOptions{
		"read only":        {ReadOnly: true},
		"route randomly":   {RouteRandomly: true},
		"route by latency": {RouteByLatency: true},
	} {
		options.Addrs = []string{g.Masters[0].Addr(), g.Masters[1].Addr()}
		rdb := redis.NewClusterClient(options)
		defer redistest.Close(rdb)
		require.NoError(t, rdb.Ping(t.Context()).Err(), "it knows the cluster")
		all[how] = rdb
	}
	require.True(t, reads(t, all, g), "these clients do read from a replica")
	g.Replica.Pause()
	name, quota := servedBy(t, g, g.Masters[0]), fairlimit.Every(interval)
	var calling sync.WaitGroup
	for how, rdb := range all {
		prefix := fairlimit.WithPrefix(how) // all in one slot
		own := queue(t, rdb, name, quota, prefix, fairlimit.WithPauseWithin(within))
		other := queue(t, rdb, name, quota, prefix, fairlimit.WithPauseWithin(within))
		calling.Go(func() {
			start := time.Now()
			var sleeping sync.WaitGroup
			var mu sync.Mutex
			var log []arrival
			for range callers {
				r, err := other.ReserveN(t.Context(), 1)
				if !assert.NoError(t, err) {
					return
				}
				sleeping.Go(func() {
					assert.NoError(t, r.Wait(t.Context()))
					mu.Lock()
					defer mu.Unlock()
					log = append(log, arrival{at: time.Now()})
				})
			}
			called := time.Now()
			assert.NoError(t, own.Pause(t.Context(), pause))
			recorded := time.Now()
			s, err := own.Status(t.Context())
			assert.NoError(t, err)
			assert.Positive(t, s.Paused, how)
			sleeping.Wait()
			late := between(log, recorded.Add(within+50*time.Millisecond), called.Add(pause))
			assert.Zero(t, late, "%s: calls more than X after the pause", how)
			assert.Positive(t, between(log, start, recorded.Add(within)), "%s: nobody asked but those who looked", how)
		})
	}
	calling.Wait()
	g.Replica.Resume()
	assert.False(t, runs(g.Replica), "no script ran there")
}

// reads reports whether the clients read from the replica.
func reads(t *testing.T, all map[string]*redis.ClusterClient, g *redistest.ClusterGroup) bool {
	key := limitertest.Key(servedBy(t, g, g.Masters[0]))
	for how, rdb := range all {
		for range 100 {
			require.ErrorIs(t, rdb.Get(t.Context(), key).Err(), redis.Nil, how)
		}
	}
	info, err := g.Replica.Client().Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	return strings.Contains(info, "cmdstat_get:")
}
