package faults_test

import (
	"regexp"
	"slices"
	"strings"
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
	const interval = 50 * time.Millisecond
	g := redistest.StartCluster(t)
	keepMasters(t, g)
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
		for range 100 {
			require.ErrorIs(t, rdb.Get(t.Context(), limitertest.Key(name)).Err(), redis.Nil)
		}
		all[how] = rdb
	}
	commands := func() string {
		info, err := g.Replica.Client().Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		return info
	}
	require.Contains(t, commands(), "cmdstat_get:", "these clients do read from a replica")
	g.Replica.Pause()
	for how, rdb := range all {
		t.Run(strings.ReplaceAll(how, " ", "-"), func(t *testing.T) {
			looks := make(chan error, 100)
			heard := &fairlimit.Trace{Asked: func(op string, _ int, _ time.Duration, err error) {
				if op == "look" {
					looks <- err
				}
			}}
			q := named(t, rdb, name, fairlimit.Every(interval), fairlimit.WithPrefix(how), // all in one slot
				fairlimit.WithPauseWithin(2*interval), fairlimit.WithTrace(heard)).(*fairlimit.Queue)
			var r *fairlimit.Reservation
			for range 7 {
				var err error
				r, err = q.ReserveN(t.Context(), 1)
				require.NoError(t, err)
			}
			require.NoError(t, r.Wait(t.Context()))
			require.NoError(t, <-looks, "its turn was far enough ahead for a look")
			require.NoError(t, q.Pause(t.Context(), time.Minute))
			assert.Positive(t, status(t, q).Paused)
		})
	}
	g.Replica.Resume()
	assert.False(t, regexp.MustCompile(`cmdstat_(eval|evalsha|eval_ro|evalsha_ro):`).MatchString(commands()),
		"no script ran there")
}
