package faults_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// goes asks until n permits are on the replica. On a busy machine the replica
// may answer too late, even for the caller to go with its turn. Then the permits
// are given back.
func goes(t *testing.T, l fairlimit.Limiter, n int) {
	t.Helper()
	tooLate := func(err error) bool {
		return errors.Is(err, fairlimit.ErrNotReplicated) || errors.Is(err, fairlimit.ErrMissed)
	}
	err := l.WaitN(t.Context(), n)
	for end := time.Now().Add(20 * time.Second); tooLate(err) && time.Now().Before(end); {
		err = l.WaitN(t.Context(), n)
	}
	assert.NoError(t, err)
}

func TestAGrantOutlivesItsServer(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, build maker) {
		primary, replica := redistest.Pair(t)
		name := redistest.Name(t)
		l := build(t, primary.Client(), name, fairlimit.PerHour(100), fairlimit.WithReplicas(1))
		for range 20 {
			goes(t, l, 1)
		}
		primary.Kill()
		require.NoError(t, replica.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
		promoted := build(t, replica.Client(), name, fairlimit.PerHour(100))
		assert.Equal(t, 80, status(t, promoted).Available, "the replica has every turn that was taken")
	})
}

func TestAGrantThatNoReplicaHasIsAnErrorAndGivenBack(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, build maker) {
		primary, replica := redistest.Pair(t)
		l := build(t, primary.Client(), redistest.Name(t), fairlimit.PerHour(3), fairlimit.WithReplicas(1))
		goes(t, l, 1)

		replica.Pause()
		start := time.Now()
		err := l.WaitN(t.Context(), 2)
		require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
		assert.Contains(t, err.Error(), "given back")
		assert.NotErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
		allowed, err := l.Allow(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
		assert.False(t, allowed)
		if r, ok := l.(fairlimit.Reserver); ok {
			_, err := r.ReserveN(t.Context(), 1)
			require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
		}
		assert.Less(t, time.Since(start), 5*time.Second, "half a second each")
		assert.Equal(t, fairlimit.Status{Available: 2}, status(t, l))

		replica.Resume()
		goes(t, l, 2)
	})
}

func TestStatusOfAFlowWaitsForNoReplica(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Pair(t)
	q, err := fairlimit.NewQueue(primary.Client(), redistest.Name(t), fairlimit.PerHour(3), fairlimit.WithReplicas(1))
	require.NoError(t, err)
	q, err = q.Flow("a", 1)
	require.NoError(t, err)
	goes(t, q, 1)
	replica.Pause()
	for range 2 { // before and after it is known that there are too few
		assert.Equal(t, fairlimit.Status{Available: 2}, status(t, q))
		_, err = q.ReserveN(t.Context(), 1)
		require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
	}
}

// Callers of several limiters ask again and again. What is granted to them
// comes back from the middle of the queue.
func TestNobodyMakesAQueueLongerWhileTooFewReplicasAreThere(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Pair(t)
	name, quota := redistest.Name(t), fairlimit.PerSecond(2)
	const limiters, each = 3, 4
	replica.Pause()
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range limiters {
		q, err := fairlimit.NewQueue(primary.Client(), name, quota, fairlimit.WithReplicas(1))
		require.NoError(t, err)
		for range each {
			callers.Go(func() {
				for ctx.Err() == nil {
					assert.Error(t, q.Wait(ctx))
				}
			})
		}
		time.Sleep(170 * time.Millisecond)
	}
	q, err := fairlimit.NewQueue(primary.Client(), name, quota)
	require.NoError(t, err)
	for range 4 {
		time.Sleep(time.Second)
		assert.Less(t, status(t, q).Delay, (1+limiters*each)*quota.Per/2)
	}
	stop()
	callers.Wait()
}

func TestWaitingForReplicasFitsTheClientsTimeout(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Pair(t)
	proxy := redistest.StartProxy(t)
	rdb := proxy.Client(&redis.Options{Addr: primary.Addr(), ReadTimeout: 900 * time.Millisecond})
	l := limiter(t, rdb, fairlimit.PerHour(3), fairlimit.WithReplicas(1))
	var waits [][]string
	proxy.Watch(func(words []string) {
		if words[0] == "wait" {
			waits = append(waits, words)
		}
	})
	replica.Pause()
	err := l.Wait(t.Context())
	proxy.Watch(nil)
	require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
	assert.NotErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	assert.Contains(t, err.Error(), "450ms")
	assert.Contains(t, waits, []string{"wait", "1", "450"}, "half of ReadTimeout is for the way")
}

// pipelines sees what goes out together, and what alone, and may change what
// comes back.
type pipelines struct {
	redistest.Hook  // of what goes alone
	together, alone []string
	after           func(cmds []redis.Cmder)
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		p.together = append(p.together, strings.Join(names, " "))
		err := next(ctx, cmds)
		p.after(cmds)
		return err
	}
}

// TestScriptAndWaitShareOneConnection also has WAIT reply with an error after
// which a script is sent again.
func TestScriptAndWaitShareOneConnection(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.Pair(t)
	rdb := redis.NewClient(&redis.Options{Addr: primary.Addr()})
	defer redistest.Close(rdb)
	require.NoError(t, rdb.Ping(t.Context()).Err(), "connecting has a pipeline of its own")
	seen := &pipelines{after: func([]redis.Cmder) {}}
	seen.Hook = func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		seen.alone = append(seen.alone, cmd.Name())
		return next(ctx, cmd)
	}
	rdb.AddHook(seen)
	l := limiter(t, rdb, fairlimit.PerHour(10), fairlimit.WithReplicas(1))
	for range 3 {
		goes(t, l, 1)
	}
	assert.Equal(t, []string{"evalsha wait", "eval wait", "evalsha wait"}, seen.together[:3])
	assert.NotContains(t, seen.alone, "wait")

	left := status(t, l).Available
	seen.together, seen.after = nil, func(cmds []redis.Cmder) { cmds[1].SetErr(redis.ErrNoScript) }
	require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrNotReplicated)
	assert.Equal(t, []string{"evalsha wait"}, seen.together, "it is not taken for the script's")
	assert.Equal(t, left, status(t, l).Available)
}

func TestAGrantWhoseReplyIsLostIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.Pair(t)
	proxy := redistest.StartProxy(t)
	rdb := proxy.Client(&redis.Options{Addr: primary.Addr()})
	l := limiter(t, rdb, fairlimit.PerHour(10), fairlimit.WithReplicas(1))
	goes(t, l, 1)
	proxy.Lose(1, "evalsha", redistest.Cut)
	require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrOutcomeUnknown)
	assert.Equal(t, 8, status(t, l).Available, "it ran once, though the client would retry")
}

// looksAtReplicasInScripts says whether min-replicas-to-write holds for scripts:
// from Redis 6.2.7 on.
func looksAtReplicasInScripts(t *testing.T, server *redistest.Server) bool {
	info, err := server.Client().InfoMap(t.Context(), "server").Result()
	require.NoError(t, err)
	version := info["Server"]["redis_version"]
	patch, isOld := strings.CutPrefix(version, "6.2.")
	n, err := strconv.Atoi(patch)
	return !isOld || err == nil && n >= 7
}

func TestMinReplicasToWriteAndWithReplicasGoTogether(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, build maker) {
		primary, replica := redistest.Pair(t)
		require.NoError(t, primary.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
		l := build(t, primary.Client(), redistest.Name(t), fairlimit.PerHour(3), fairlimit.WithReplicas(1))
		goes(t, l, 1)

		replica.Kill()
		looks := looksAtReplicasInScripts(t, primary)
		for range 2 {
			err := l.Wait(t.Context())
			if looks {
				require.ErrorContains(t, err, "NOREPLICAS")
				require.ErrorAs(t, err, new(redis.Error))
			} else {
				require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
			}
		}
		require.Equal(t, 2, status(t, l).Available, "nothing was consumed")

		replica.Restart()
		require.Eventually(t, func() bool { return l.Wait(t.Context()) == nil }, 20*time.Second, time.Millisecond)
		require.Equal(t, 1, status(t, l).Available)
	})
}

func TestReplicasOfARing(t *testing.T) {
	t.Parallel()
	a, _ := redistest.Pair(t)
	b, replica := redistest.Pair(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	defer redistest.Close(ring)
	replica.Pause()
	outcomes := map[bool]int{}
	for len(outcomes) < 2 { // until names are on both, each of which waits for its own replicas
		l := limiter(t, ring, fairlimit.PerHour(1), fairlimit.WithReplicas(1))
		err := l.Wait(t.Context())
		if err != nil {
			require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
		}
		outcomes[err == nil]++
		assert.Equal(t, err == nil, status(t, l).Available == 0)
		require.Less(t, outcomes[true]+outcomes[false], 50)
	}
}

func TestReplicasOfAClusterFollowTheirKey(t *testing.T) {
	t.Parallel()
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartCluster(t)
			from, to := g.Masters[1], g.Masters[0] // which has the replica
			keepMasters(t, g)
			queue := servedBy(t, g, from)
			slot, err := g.Client.ClusterKeySlot(t.Context(), "{"+queue+"}").Result()
			require.NoError(t, err)
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{from.Addr(), to.Addr()}})
			defer redistest.Close(rdb)
			require.NoError(t, rdb.Ping(t.Context()).Err(), "the client knows the cluster as it was")
			l, err := fairlimit.New(rdb, queue, fairlimit.PerHour(10), e, fairlimit.WithReplicas(1))
			require.NoError(t, err)
			setSlot := func(node *redistest.Server, how string, other *redistest.Server) {
				words := []any{"cluster", "setslot", slot, how, g.ID(t, other)}
				require.NoError(t, node.Client().Do(t.Context(), words...).Err(), "%v", words)
			}

			setSlot(to, "importing", from)
			setSlot(from, "migrating", to)
			if name == "fair" { // Redis lets nobody ask for several new keys before the slot has moved
				goes(t, l, 2) // to where it is to ASK
			}
			setSlot(to, "node", to)
			setSlot(from, "node", to)
			goes(t, l, 3) // to where it has MOVED
			left := status(t, l).Available
			assert.Equal(t, map[string]int{"fair": 5, "window": 7}[name], left)

			g.Replica.Pause()
			require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrNotReplicated)
			assert.Equal(t, left, status(t, l).Available)
		})
	}
}

// A ceiling holds wherever the server of its queue is, and what is stored of it
// is there.
func TestACeilingOfACluster(t *testing.T) {
	t.Parallel()
	for range 8 { // names of several servers
		// A busy machine misses no turn.
		q := limiter(t, redistest.Cluster(t), fairlimit.PerSecond(100), fairlimit.WithMaxLateness(time.Minute))
		acme, err := q.(*fairlimit.Queue).Flow("acme", 1, fairlimit.WithFlowQuota(fairlimit.PerHour(3)))
		require.NoError(t, err)
		require.NoError(t, acme.WaitN(t.Context(), 3))
		require.NoError(t, acme.SetQuotas(t.Context(), fairlimit.PerHour(4)))
		for _, want := range []bool{true, false} {
			allowed, err := acme.Allow(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, allowed)
		}
		require.NoError(t, q.Wait(t.Context()), "others have no ceiling")
	}
}
