package faults_test

import (
	"context"
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
	"github.com/fairlimit/fairlimit/window"
)

// migrate moves a slot with all its keys from one node to another, as a
// rebalancing would. It is slow enough for callers to meet every stage. asked
// is how often a caller has been redirected to the new node.
func migrate(t *testing.T, g *redistest.ClusterGroup, slot int64, from, to *redistest.Server, asked func() int64) {
	do := func(node *redistest.Server, words ...any) any {
		reply, err := node.Client().Do(t.Context(), words...).Result()
		require.NoError(t, err, "%v", words)
		return reply
	}
	do(to, "cluster", "setslot", slot, "importing", g.ID(t, from))
	do(from, "cluster", "setslot", slot, "migrating", g.ID(t, to))
	time.Sleep(50 * time.Millisecond) // callers go on
	before := asked()
	host, port := "127.0.0.1", to.Addr()[len("127.0.0.1:"):]
	for { // one by one: of several keys of a limiter, some are here and some there
		keys := do(from, "cluster", "getkeysinslot", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		do(from, "migrate", host, port, keys[0], 0, 5000)
		time.Sleep(20 * time.Millisecond) // callers meet a key on each side
	}
	require.Eventually(t, func() bool { return asked() > before }, 10*time.Second, time.Millisecond)
	do(to, "cluster", "setslot", slot, "node", g.ID(t, to))
	time.Sleep(50 * time.Millisecond) // the old node does not know yet
	for _, node := range g.Masters {
		do(node, "cluster", "setslot", slot, "node", g.ID(t, to))
	}
}

// redirects counts the answers that lead elsewhere.
func redirects(t *testing.T, rdb *redis.ClusterClient) func() map[string]int64 {
	counts := map[string]*atomic.Int64{"MOVED": {}, "ASK": {}, "TRYAGAIN": {}}
	rdb.OnNewNode(func(node *redis.Client) {
		for prefix, count := range counts {
			node.AddHook(seen(prefix, count))
		}
	})
	return func() map[string]int64 {
		all := map[string]int64{}
		for prefix, count := range counts {
			all[prefix] = count.Load()
		}
		return all
	}
}

func TestASlotThatMigratesIsNoErrorAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	const callers, journeys = 32, 2
	g := redistest.StartCluster(t)
	count := redirects(t, g.Client)
	name := servedBy(t, g, g.Masters[1])
	quota := fairlimit.Quota{Permits: 5, Per: 25 * time.Millisecond}
	slot, err := g.Client.ClusterKeySlot(t.Context(), limitertest.Key(name)).Result()
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var went atomic.Int64
	var calling sync.WaitGroup
	for i := range callers {
		l := named(t, g.Client, name, quota)
		calling.Go(func() {
			for ctx.Err() == nil {
				if assert.NoError(t, l.Wait(context.WithoutCancel(t.Context())), "caller %d", i) {
					went.Add(1)
				}
			}
		})
	}
	// One more caller asks all the time. Its turns never go back and never
	// crowd, whichever node gave them.
	l := named(t, g.Client, name, quota)
	var earliest, latest []time.Time
	calling.Go(func() {
		for ctx.Err() == nil {
			asked := time.Now()
			r, err := l.ReserveN(context.WithoutCancel(t.Context()), 1)
			if !assert.NoError(t, err) {
				return
			}
			earliest, latest = append(earliest, r.Slot().Add(-time.Since(asked))), append(latest, r.Slot())
			time.Sleep(time.Millisecond) // or its queue would grow
		}
	})
	for i := range journeys {
		migrate(t, g, slot, g.Masters[1+i%2], g.Masters[2-i%2], func() int64 { return count()["ASK"] })
	}
	stop()
	calling.Wait()
	for i := range len(earliest) - 1 {
		require.False(t, latest[i+1].Before(earliest[i]), "turn %d lies before turn %d", i+1, i)
	}
	for i := range max(0, len(earliest)-quota.Permits) {
		require.GreaterOrEqual(t, latest[i+quota.Permits].Sub(earliest[i]), quota.Per,
			"turns %d to %d", i, i+quota.Permits)
	}
	t.Logf("%d journeys, %d went, %d reserved, redirected: %v", journeys, went.Load(), len(earliest), count())
	assert.Positive(t, count()["MOVED"])
}

func TestASlotThatMigratesIsNoErrorForAWindow(t *testing.T) {
	t.Parallel()
	const permits, journeys = 300, 2
	g := redistest.StartCluster(t)
	count := redirects(t, g.Client)
	name := redistest.Name(t)
	slot, err := g.Client.ClusterKeySlot(t.Context(), name).Result()
	require.NoError(t, err)
	master, err := g.Client.MasterForKey(t.Context(), name)
	require.NoError(t, err)
	here, there := g.Masters[0], g.Masters[1]
	for i, node := range g.Masters {
		if node.Addr() == master.Options().Addr {
			here, there = node, g.Masters[(i+1)%len(g.Masters)]
		}
	}
	l, err := fairlimit.New(g.Client, name, fairlimit.PerHour(permits), fairlimit.WithEngine(window.New))
	require.NoError(t, err)
	crowd := startCrowd(t, l, 16, 20*time.Millisecond, noError)
	for range journeys {
		migrate(t, g, slot, here, there, func() int64 { c := count(); return c["ASK"] + c["TRYAGAIN"] })
		here, there = there, here
	}
	crowd.stop()
	t.Logf("%d journeys, redirected: %v", journeys, count())
	assert.LessOrEqual(t, crowd.went.Load(), int64(permits))
	assert.Zero(t, crowd.unknown.Load())
	assert.Equal(t, permits-int(crowd.went.Load()), status(t, l).Available)
}
