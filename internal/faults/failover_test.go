package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
func keepMasters(t *testing.T, g *redistest.ClusterGroup, also ...*redistest.Server) {
	for _, node := range slices.Concat(g.Masters, []*redistest.Server{g.Replica}, also) {
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
			failOver(t, g.Client, redistest.Name(t), g.Master, g.Replica, knowing)
		})
		t.Run("cluster, "+who, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartCluster(t)
			failOver(t, g.Client, servedBy(t, g, g.Masters[0]), g.Masters[0], g.Replica, knowing)
		})
	}
}

func failOver(t *testing.T, rdb redis.UniversalClient, name string, primary, replica *redistest.Server, knowing bool) {
	const permits, before, unseen, callers = 400, 100, 20, 16
	l := named(t, rdb, name, fairlimit.PerHour(permits))
	for range before {
		require.NoError(t, l.Wait(t.Context()))
	}
	cutOff(t, primary, replica, name)
	for range unseen {
		require.NoError(t, l.Wait(t.Context()))
	}

	var went, unknown, failed atomic.Int64
	var mu sync.Mutex
	var answeredAgain time.Time
	var calling sync.WaitGroup
	start := make(chan struct{})
	for range callers {
		calling.Go(func() {
			<-start
			for {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
				allowed, err := l.Allow(ctx)
				cancel()
				mu.Lock()
				if err == nil && answeredAgain.IsZero() {
					answeredAgain = time.Now()
				}
				mu.Unlock()
				switch {
				case allowed:
					went.Add(1)
				case err == nil:
					return
				case errors.Is(err, fairlimit.ErrOutcomeUnknown):
					unknown.Add(1)
				default:
					failed.Add(1)
					assert.True(t, errors.Is(err, fairlimit.ErrUnreachable) || errors.As(err, new(redis.Error)),
						"%v", err)
					if errors.Is(err, context.DeadlineExceeded) {
						return
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	if !knowing {
		l = named(t, rdb, name, fairlimit.PerHour(permits))
	}
	primary.Kill()
	replica.Resume()
	killed := time.Now()
	close(start)
	calling.Wait()

	total := before + unseen + int(went.Load())
	t.Logf("%d granted of %d, %d of them unseen by the replica; answers again %v after the death; "+
		"%d left open, %d errors meanwhile",
		total, permits, unseen, answeredAgain.Sub(killed).Round(time.Millisecond), unknown.Load(), failed.Load())
	if knowing {
		assert.LessOrEqual(t, total, permits)
	} else {
		assert.LessOrEqual(t, total, permits+unseen)
		assert.Positive(t, went.Load(), "callers go on")
	}
	status, err := l.Status(t.Context())
	require.NoError(t, err)
	assert.Zero(t, status.Available)
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
	const permits, callers = 20_000, 8
	g := redistest.StartCluster(t)
	l := named(t, g.Client, servedBy(t, g, g.Masters[0]), fairlimit.PerHour(permits))
	ctx, stop := context.WithCancel(t.Context())
	var went, unknown atomic.Int64
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for ctx.Err() == nil {
				allowed, err := l.Allow(context.WithoutCancel(t.Context()))
				switch {
				case allowed:
					went.Add(1)
				case errors.Is(err, fairlimit.ErrOutcomeUnknown):
					unknown.Add(1)
				default:
					assert.NoError(t, err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	goesOn := func() {
		before := went.Load()
		require.Eventually(t, func() bool { return went.Load() >= before+100 }, 20*time.Second, time.Millisecond)
	}
	goesOn()
	require.NoError(t, g.Replica.Client().ClusterFailover(t.Context()).Err())
	require.Eventually(t, func() bool {
		info, err := g.Replica.Client().Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	}, 20*time.Second, 10*time.Millisecond)
	goesOn()
	stop()
	calling.Wait()
	used := int64(permits - status(t, l).Available)
	t.Logf("%d granted, %d used, %d left open", went.Load(), used, unknown.Load())
	assert.GreaterOrEqual(t, used, went.Load())
	assert.LessOrEqual(t, used, went.Load()+unknown.Load())
}
