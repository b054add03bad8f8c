package faults_test

import (
	"errors"
	"fmt"
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

// servedBy returns the name of a limiter on fair whose key is on the node.
func servedBy(t *testing.T, g *redistest.ClusterGroup, node *redistest.Server) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s %d", t.Name(), i)
		master, err := g.Client.MasterForKey(t.Context(), limitertest.Key(name))
		require.NoError(t, err)
		if master.Options().Addr == node.Addr() {
			return name
		}
	}
}

// keepMasters lets no replica take over while a test stops a node.
func keepMasters(t *testing.T, g *redistest.ClusterGroup) {
	for _, node := range append(slices.Clone(g.Masters), g.Replica) {
		require.NoError(t, node.Client().ConfigSet(t.Context(), "cluster-node-timeout", "15000").Err())
	}
}

// TestCallersGoOnThroughAFailover kills a primary that has a replica, while
// callers call, after some turns that the replica has not seen. If nobody is
// left who knows of those turns, they are granted once more, and not one permit
// beyond. Callers who know of them make up for them.
func TestCallersGoOnThroughAFailover(t *testing.T) {
	t.Parallel()
	for _, knowing := range []bool{false, true} {
		who := map[bool]string{false: "strangers", true: "those who know"}[knowing]
		t.Run("sentinel, "+who, func(t *testing.T) {
			t.Parallel()
			g := redistest.Sentinel(t)
			failOver(t, g.Client, redistest.Name(t), g.Master, g.Replica, knowing, fairlimit.PerHour(400))
		})
		t.Run("cluster, "+who, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartCluster(t)
			name := servedBy(t, g, g.Masters[0])
			failOver(t, g.Client, name, g.Masters[0], g.Replica, knowing, fairlimit.PerHour(400))
		})
		t.Run("cluster, a ceiling, "+who, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartCluster(t)
			name := servedBy(t, g, g.Masters[0])
			failOver(t, g.Client, name, g.Masters[0], g.Replica, knowing, fairlimit.PerHour(4000),
				fairlimit.WithFlow("acme", 1), fairlimit.WithFlowQuota(fairlimit.PerHour(400)))
		})
	}
}

// failOver is for a quota, or a ceiling, of 400 permits.
func failOver(
	t *testing.T, rdb redis.UniversalClient, name string, primary, replica *redistest.Server, knowing bool,
	quota fairlimit.Quota, opts ...fairlimit.Option,
) {
	const permits, before, unseen = 400, 100, 20
	l := named(t, rdb, name, quota, opts...)
	require.NoError(t, l.WaitN(t.Context(), before))
	cutOff(t, primary, replica, name)
	require.NoError(t, l.WaitN(t.Context(), unseen))
	if !knowing {
		l = named(t, rdb, name, quota, opts...)
	}
	primary.Kill()
	replica.Resume()
	crowd := startCrowd(t, l, 16, 5*time.Millisecond, func(err error) bool {
		return errors.Is(err, fairlimit.ErrUnreachable) || errors.As(err, new(redis.Error))
	})
	require.Eventually(t, func() bool { return crowd.refused.Load() > 0 }, 2*time.Minute, 10*time.Millisecond)
	crowd.stop()
	total := before + unseen + int(crowd.went.Load())
	t.Logf("%d granted of %d, %d of them unseen by the replica; %d left open",
		total, permits, unseen, crowd.unknown.Load())
	if knowing {
		assert.LessOrEqual(t, total, permits) // far fewer of a ceiling, which then counts as full
	} else {
		assert.LessOrEqual(t, total, permits+unseen)
		assert.Positive(t, crowd.went.Load(), "callers go on")
	}
	allowed, err := l.Allow(t.Context())
	require.NoError(t, err)
	assert.False(t, allowed, "all permits are taken, or count as taken")
}

// cutOff lets the replica see all that has been written, and nothing of what
// will be.
func cutOff(t *testing.T, primary, replica *redistest.Server, name string) {
	admin := primary.Client()
	// WAIT waits for what its own connection wrote. What was written before
	// has arrived by then, too.
	conn := admin.Conn()
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.Set(t.Context(), limitertest.Key(name)+"seen", "", time.Minute).Err())
	acknowledged, err := conn.Wait(t.Context(), 1, 2*time.Second).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), acknowledged)
	// It stands still, and is cut off.
	replica.Pause()
	require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "replica").Err())
}

// TestAFailoverThatIsPlannedLosesNothing hands over while callers call.
func TestAFailoverThatIsPlannedLosesNothing(t *testing.T) {
	t.Parallel()
	const permits = 20_000
	g := redistest.StartCluster(t)
	l := named(t, g.Client, servedBy(t, g, g.Masters[0]), fairlimit.PerHour(permits))
	crowd := startCrowd(t, l, 8, time.Millisecond, noError)
	goesOn := func() {
		before := crowd.went.Load()
		require.Eventually(t, func() bool { return crowd.went.Load() >= before+100 }, 20*time.Second, time.Millisecond)
	}
	goesOn()
	require.NoError(t, g.Replica.Client().ClusterFailover(t.Context()).Err())
	require.Eventually(t, func() bool {
		info, err := g.Replica.Client().Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	}, 20*time.Second, 10*time.Millisecond)
	goesOn()
	crowd.stop()
	accounts(t, permits-status(t, l).Available, crowd.went.Load(), crowd.unknown.Load())
}
