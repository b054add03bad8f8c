package faults_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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
	"github.com/fairlimit/fairlimit/window"
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
			failOver(t, g.Client, redistest.Name(t), g.Master, g.Replica, knowing)
		})
		t.Run("cluster, "+who, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartCluster(t)
			name := servedBy(t, g, g.Masters[0])
			failOver(t, g.Client, name, g.Masters[0], g.Replica, knowing)
		})
	}
}

func failOver(
	t *testing.T, rdb redis.UniversalClient, name string, primary, replica *redistest.Server, knowing bool,
) {
	const permits, before, unseen = 400, 100, 20
	l := named(t, rdb, name, fairlimit.PerHour(permits))
	require.NoError(t, l.WaitN(t.Context(), before))
	cutOff(t, primary, replica, name)
	require.NoError(t, l.WaitN(t.Context(), unseen))
	if !knowing {
		l = named(t, rdb, name, fairlimit.PerHour(permits))
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
		assert.LessOrEqual(t, total, permits)
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

// seen counts the replies with a prefix that reach a client.
func seen(prefix string, count *atomic.Int64) redistest.Hook {
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if redis.HasErrorPrefix(err, prefix) {
			count.Add(1)
		}
		return err
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
	const permits = 300
	g := redistest.StartCluster(t)
	count := redirects(t, g.Client)
	name := redistest.Name(t)
	slot, err := g.Client.ClusterKeySlot(t.Context(), name).Result()
	require.NoError(t, err)
	master, err := g.Client.MasterForKey(t.Context(), name)
	require.NoError(t, err)
	at := slices.IndexFunc(g.Masters, func(node *redistest.Server) bool { return node.Addr() == master.Options().Addr })
	here, there := g.Masters[at], g.Masters[(at+1)%len(g.Masters)]
	l, err := fairlimit.New(g.Client, name, fairlimit.PerHour(permits), fairlimit.WithEngine(window.New))
	require.NoError(t, err)
	crowd := startCrowd(t, l, 16, 20*time.Millisecond, noError)
	redirected := func() int64 { c := count(); return c["ASK"] + c["TRYAGAIN"] }
	migrate(t, g, slot, here, there, redirected)
	migrate(t, g, slot, there, here, redirected)
	crowd.stop()
	t.Logf("redirected: %v", count())
	assert.LessOrEqual(t, crowd.went.Load(), int64(permits))
	assert.Zero(t, crowd.unknown.Load())
	assert.Equal(t, permits-int(crowd.went.Load()), status(t, l).Available)
}

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
