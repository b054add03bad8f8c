package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// A ceiling holds wherever the server of its queue is, and what is stored and
// looked at of it is there.
func TestACeilingOfAClusterAndOfARing(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(t *testing.T) redis.UniversalClient{
		"cluster": func(t *testing.T) redis.UniversalClient { return redistest.StartCluster(t).Client },
		"ring": func(t *testing.T) redis.UniversalClient {
			addrs := map[string]string{"a": redistest.StartServer(t).Addr(), "b": redistest.StartServer(t).Addr()}
			ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
			t.Cleanup(func() { redistest.Close(ring) })
			return ring
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := client(t)
			for i := range 8 { // names of several servers
				holdsACeiling(t, rdb, fmt.Sprintf("%s %d", redistest.Name(t), i))
			}
		})
	}
}

func holdsACeiling(t *testing.T, rdb redis.UniversalClient, name string) {
	q, err := fairlimit.NewQueue(rdb, name, fairlimit.PerSecond(100))
	require.NoError(t, err)
	acme, err := q.Flow("acme", 1, fairlimit.WithFlowQuota(fairlimit.PerHour(3)))
	require.NoError(t, err)
	require.NoError(t, acme.WaitN(t.Context(), 3))
	allowed := func(l fairlimit.Limiter) bool {
		allowed, err := l.Allow(t.Context())
		require.NoError(t, err)
		return allowed
	}
	assert.False(t, allowed(acme))

	require.NoError(t, acme.SetQuotas(t.Context(), fairlimit.PerHour(5)))
	assert.True(t, allowed(acme))
	require.NoError(t, acme.Pause(t.Context(), time.Hour))
	assert.False(t, allowed(acme))
	other, err := q.Flow("other", 1)
	require.NoError(t, err)
	require.NoError(t, other.Wait(t.Context()))

	s, err := fair.Inspect(t.Context(), rdb, name, fair.WithCeilings())
	require.NoError(t, err)
	require.Len(t, s.Ceilings, 1)
	assert.Equal(t, "acme", s.Ceilings[0].Flow)
}

// With WithReplicas a turn of a flow counts once the replica has it, and its
// ceiling with it.
func TestACeilingThatAReplicaHas(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Pair(t)
	name := redistest.Name(t)
	opts := []fairlimit.Option{fairlimit.WithFlow("acme", 1), fairlimit.WithFlowQuota(fairlimit.PerHour(3))}
	goes(t, named(t, primary.Client(), name, fairlimit.PerHour(100), append(opts, fairlimit.WithReplicas(1))...), 3)
	primary.Kill()
	require.NoError(t, replica.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
	allowed, err := named(t, replica.Client(), name, fairlimit.PerHour(100), opts...).Allow(t.Context())
	require.NoError(t, err)
	assert.False(t, allowed)
}
