package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// pair starts a server and a replica of it that is in sync.
func pair(t *testing.T, args ...string) (primary, replica *redistest.Server) {
	primary = redistest.StartServer(t, append(args, "--repl-diskless-sync-delay", "0")...)
	_, port, _ := strings.Cut(primary.Addr(), ":")
	replica = redistest.StartServer(t, append(args, "--replicaof", "127.0.0.1", port)...)
	inSync(t, primary)
	return primary, replica
}

// inSync returns when the primary's replica has what is written now. What was written before the replica was there counts as on it before it is: the
// first time proves nothing.
func inSync(t *testing.T, primary *redistest.Server) {
	tries, times := 0, 0
	require.Eventually(t, func() bool {
		tries++
		cmds, err := primary.Client().Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			pipe.Set(t.Context(), fmt.Sprint("in sync ", tries), "", 0) // a node of a cluster has only some of the keys
			pipe.Do(t.Context(), "wait", 1, 100)
			return nil
		})
		if err == nil && cmds[1].(*redis.Cmd).Val() == int64(1) {
			times++
		}
		return times == 2
	}, 20*time.Second, time.Millisecond)
}

// goes asks until n permits are on the replica: on a busy machine it may be slow for once, and then they are given back.
func goes(t *testing.T, l fairlimit.Limiter, n int) {
	t.Helper()
	err := l.WaitN(t.Context(), n)
	for end := time.Now().Add(20 * time.Second); errors.Is(err, fairlimit.ErrNotReplicated) && time.Now().Before(end); {
		err = l.WaitN(t.Context(), n)
	}
	assert.NoError(t, err)
}

func TestAGrantOutlivesItsServer(t *testing.T) {
	t.Parallel()
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica := pair(t)
			name := redistest.Name(t)
			l, err := fairlimit.New(primary.Client(), name, fairlimit.PerHour(100), e, fairlimit.WithReplicas(1))
			require.NoError(t, err)
			for range 20 {
				goes(t, l, 1)
			}
			primary.Kill()
			require.NoError(t, replica.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
			promoted, err := fairlimit.New(replica.Client(), name, fairlimit.PerHour(100), e)
			require.NoError(t, err)
			assert.Equal(t, 80, status(t, promoted).Available, "the replica has every turn that was taken")
		})
	}
}

func TestAGrantThatNoReplicaHasIsAnErrorAndGivenBack(t *testing.T) {
	t.Parallel()
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica := pair(t)
			l, err := fairlimit.New(primary.Client(), redistest.Name(t), fairlimit.PerHour(3), e, fairlimit.WithReplicas(1))
			require.NoError(t, err)
			goes(t, l, 1)

			replica.Pause()
			start := time.Now()
			err = l.WaitN(t.Context(), 2)
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
}

func TestMoreReplicasThanThereAreGrantNothing(t *testing.T) {
	t.Parallel()
	primary, _ := pair(t)
	l := limiter(t, primary.Client(), fairlimit.PerHour(3), fairlimit.WithReplicas(2))
	require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrNotReplicated)
	assert.Equal(t, fairlimit.Status{Available: 3}, status(t, l))
}

func TestARefusalNeedsNoReplica(t *testing.T) {
	t.Parallel()
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.StartServer(t)
			name := redistest.Name(t)
			alone, err := fairlimit.New(primary.Client(), name, fairlimit.PerHour(1), e)
			require.NoError(t, err)
			require.NoError(t, alone.Wait(t.Context()))

			l, err := fairlimit.New(primary.Client(), name, fairlimit.PerHour(1), e, fairlimit.WithReplicas(1))
			require.NoError(t, err)
			allowed, err := l.Allow(t.Context())
			require.NoError(t, err)
			assert.False(t, allowed)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.ErrorAs(t, l.Wait(ctx), new(*fairlimit.RefusedError))
		})
	}
}

func TestWaitingForReplicasFitsTheClientsTimeout(t *testing.T) {
	t.Parallel()
	primary, replica := pair(t)
	rdb := redis.NewClient(&redis.Options{Addr: primary.Addr(), ReadTimeout: 300 * time.Millisecond})
	defer func() { _ = rdb.Close() }()
	l := limiter(t, rdb, fairlimit.PerHour(3), fairlimit.WithReplicas(1))
	replica.Pause()
	err := l.Wait(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
	assert.NotErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	assert.Contains(t, err.Error(), "150ms")
}

func TestManyCallersAreOnTheirReplicasTogether(t *testing.T) {
	t.Parallel()
	primary, replica := pair(t)
	name := redistest.Name(t)
	l := named(t, primary.Client(), name, fairlimit.PerHour(1000), fairlimit.WithReplicas(1))
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() { goes(t, l, 1) })
	}
	wg.Wait()
	replica.Pause()
	for range 300 {
		wg.Go(func() { assert.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrNotReplicated) })
	}
	wg.Wait()
	assert.Equal(t, 700, status(t, l).Available)
}

// pipelines sees what goes out together, and what alone, and may change what comes back.
type pipelines struct {
	together, alone []string
	after           func(cmds []redis.Cmder)
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.alone = append(p.alone, cmd.Name())
		return next(ctx, cmd)
	}
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

func TestScriptAndWaitShareOneConnection(t *testing.T) {
	t.Parallel()
	primary, _ := pair(t)
	rdb := redis.NewClient(&redis.Options{Addr: primary.Addr()})
	defer func() { _ = rdb.Close() }()
	require.NoError(t, rdb.Ping(t.Context()).Err(), "connecting has a pipeline of its own")
	seen := &pipelines{after: func([]redis.Cmder) {}}
	rdb.AddHook(seen)
	l := limiter(t, rdb, fairlimit.PerHour(10), fairlimit.WithReplicas(1))
	for range 3 {
		goes(t, l, 1)
	}
	assert.Equal(t, []string{"evalsha wait", "eval wait", "evalsha wait"}, seen.together[:3])
	assert.NotContains(t, seen.alone, "wait")
}

// TestWhatWaitRepliesIsNotTakenForTheScripts is with a reply after which a script is sent again.
func TestWhatWaitRepliesIsNotTakenForTheScripts(t *testing.T) {
	t.Parallel()
	primary, _ := pair(t)
	l := limiter(t, primary.Client(), fairlimit.PerHour(10), fairlimit.WithReplicas(1))
	goes(t, l, 1)
	seen := &pipelines{after: func(cmds []redis.Cmder) { cmds[1].SetErr(redis.ErrNoScript) }}
	primary.Client().AddHook(seen)
	require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrNotReplicated)
	assert.Equal(t, []string{"evalsha wait"}, seen.together)
	assert.Equal(t, 9, status(t, l).Available)
}

// cut loses one reply: the connection breaks as it arrives.
type cut struct {
	net.Conn
	armed *atomic.Bool
}

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.armed.CompareAndSwap(true, false) {
		return 0, errors.Join(io.EOF, c.Close())
	}
	return n, err
}

func TestAGrantWhoseReplyIsLostIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	primary, _ := pair(t)
	var armed atomic.Bool
	rdb := redis.NewClient(&redis.Options{Addr: primary.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return cut{conn, &armed}, err
	}})
	defer func() { _ = rdb.Close() }()
	l := limiter(t, rdb, fairlimit.PerHour(10), fairlimit.WithReplicas(1))
	goes(t, l, 1)
	armed.Store(true)
	require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrOutcomeUnknown)
	assert.Equal(t, 8, status(t, l).Available, "it ran once, though the client would retry")
}

func TestAReplicaThatIsAskedIsNoPrimary(t *testing.T) {
	t.Parallel()
	_, replica := pair(t)
	l := limiter(t, replica.Client(), fairlimit.PerHour(3), fairlimit.WithReplicas(1))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, l.Wait(ctx))
}

func TestAnAccountThatMayNotWaitForReplicasGoesNowhere(t *testing.T) {
	t.Parallel()
	primary, _ := pair(t)
	require.NoError(t, primary.Client().Do(t.Context(), "acl", "setuser", "caller", "on", ">secret", "~*", "+@all", "-wait").Err())
	rdb := redis.NewClient(&redis.Options{Addr: primary.Addr(), Username: "caller", Password: "secret"})
	defer func() { _ = rdb.Close() }()
	l := limiter(t, rdb, fairlimit.PerHour(3), fairlimit.WithReplicas(1))
	err := l.Wait(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
	assert.Contains(t, err.Error(), "NOPERM")
	assert.Equal(t, fairlimit.Status{Available: 3}, status(t, l))
}

func TestAConnectionThatRedisTurnsAwayIsAnErrorOfRedis(t *testing.T) {
	t.Parallel()
	primary, _ := pair(t)
	rdb := redis.NewClient(&redis.Options{Addr: primary.Addr(), Username: "nobody", Password: "knows"})
	defer func() { _ = rdb.Close() }()
	var refusal redis.Error
	require.ErrorAs(t, limiter(t, rdb, fairlimit.PerHour(3), fairlimit.WithReplicas(1)).Wait(t.Context()), &refusal)
	assert.Contains(t, refusal.Error(), "WRONGPASS")
}

func TestAGrantOutlivesAFailoverUnderASentinel(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	inSync(t, g.Master)
	l := limiter(t, g.Client, fairlimit.PerHour(100), fairlimit.WithReplicas(1))
	for range 30 {
		goes(t, l, 1)
	}
	g.Master.Kill()
	require.Eventually(t, func() bool {
		s, err := l.Status(t.Context())
		return err == nil && assert.Equal(t, 70, s.Available)
	}, 30*time.Second, 50*time.Millisecond)
	require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrNotReplicated, "what is primary now has no replica")
}

func TestReplicasOfARing(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	b, replica := pair(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	defer func() { _ = ring.Close() }()
	replica.Pause()
	outcomes := map[bool]int{}
	for range 8 {
		l := limiter(t, ring, fairlimit.PerHour(1), fairlimit.WithReplicas(1))
		err := l.Wait(t.Context())
		if err != nil {
			require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
		}
		outcomes[err == nil]++
		assert.Equal(t, err == nil, status(t, l).Available == 0)
	}
	require.Len(t, outcomes, 2, "names are spread over both, so that this shows that each waits for its own replicas")
}

func TestReplicasOfAClusterFollowTheirKey(t *testing.T) {
	t.Parallel()
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clusterMode := []string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"}
			a, b := redistest.StartServer(t, clusterMode...), redistest.StartServer(t, clusterMode...)
			replicas := []*redistest.Server{redistest.StartServer(t, clusterMode...), redistest.StartServer(t, clusterMode...)}
			join(t, []*redistest.Server{a, b}, replicas)
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{a.Addr(), b.Addr()}})
			defer func() { _ = rdb.Close() }()

			queue := redistest.Name(t)
			slot, err := rdb.ClusterKeySlot(t.Context(), "{"+queue+"}").Result()
			require.NoError(t, err)
			from, to, newReplica := a, b, replicas[1]
			if slot >= slots/2 {
				from, to, newReplica = b, a, replicas[0]
			}
			l, err := fairlimit.New(rdb, queue, fairlimit.PerHour(10), e, fairlimit.WithReplicas(1))
			require.NoError(t, err)
			require.NoError(t, rdb.Ping(t.Context()).Err(), "the client knows the cluster as it was")

			setSlot(t, to, slot, "importing", id(t, from))
			setSlot(t, from, slot, "migrating", id(t, to))
			if name == "fair" { // Redis lets nobody ask for several new keys before the slot has moved
				goes(t, l, 2) // to where it is to ASK
			}

			for _, node := range []*redistest.Server{to, from} {
				setSlot(t, node, slot, "node", id(t, to))
			}
			goes(t, l, 3) // to where it has MOVED
			left := status(t, l).Available
			assert.Equal(t, map[string]int{"fair": 5, "window": 7}[name], left)

			newReplica.Pause()
			require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrNotReplicated)
			assert.Equal(t, left, status(t, l).Available)
		})
	}
}

const slots = 16384

// join makes a cluster of the primaries, each with half the slots and one of the replicas.
func join(t *testing.T, primaries, replicas []*redistest.Server) {
	ctx := t.Context()
	for i, node := range primaries {
		require.NoError(t, node.Client().Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		require.NoError(t, node.Client().ClusterAddSlotsRange(ctx, i*slots/2, (i+1)*slots/2-1).Err())
	}
	all := append(primaries[:len(primaries):len(primaries)], replicas...)
	for _, node := range all[1:] {
		host, port, _ := strings.Cut(node.Addr(), ":")
		require.NoError(t, primaries[0].Client().ClusterMeet(ctx, host, port).Err())
	}
	eventually := func(node *redistest.Server, what string, try func() bool) {
		require.Eventually(t, try, 20*time.Second, 20*time.Millisecond, "%s: %s", node.Addr(), what)
	}
	for i, replica := range replicas {
		eventually(replica, "knows its primary", func() bool {
			return replica.Client().ClusterReplicate(ctx, id(t, primaries[i])).Err() == nil
		})
	}
	for _, primary := range primaries {
		inSync(t, primary)
	}
	for _, node := range all {
		eventually(node, "knows all", func() bool {
			nodes, err := node.Client().ClusterNodes(ctx).Result()
			info, _ := node.Client().ClusterInfo(ctx).Result()
			return err == nil && strings.Count(nodes, " slave ")+strings.Count(nodes, ",slave ") == len(replicas) &&
				strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384")
		})
	}
}

func id(t *testing.T, node *redistest.Server) string {
	id, err := node.Client().Do(t.Context(), "cluster", "myid").Text()
	require.NoError(t, err)
	return id
}

func setSlot(t *testing.T, node *redistest.Server, slot int64, how, id string) {
	require.NoError(t, node.Client().Do(t.Context(), "cluster", "setslot", slot, how, id).Err())
}

// thrifty is an engine that grants, not on enough replicas, and takes nothing back.
type thrifty struct {
	*stub
	refuses error
	most    int // callers in one question
}

const refusedPermits = 7

func (e *thrifty) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	e.most = max(e.most, len(requests))
	time.Sleep(time.Second)
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		answers[i] = granted(0, r.N)
		if r.N == refusedPermits {
			answers[i] = refused(time.Hour)
		}
	}
	return answers, fmt.Errorf("%w: of some", fairlimit.ErrNotReplicated)
}

func (e *thrifty) GiveBack(context.Context, []engine.Grant) error { return e.refuses }

func TestWhatCannotBeGivenBackIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &thrifty{stub: &stub{queues: true}, refuses: assert.AnError}
		build := func(engine.Config) (engine.Engine, error) { return e, nil }
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(9), fairlimit.WithEngine(build), fairlimit.WithReplicas(1))
		require.NoError(t, err)
		err = l.Wait(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
		assert.Contains(t, err.Error(), assert.AnError.Error())
		assert.Contains(t, err.Error(), "pass unused")
	})
}

func TestARefusalBesideAGrantThatIsOnNoReplicaIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &thrifty{stub: &stub{queues: true}}
		build := func(engine.Config) (engine.Engine, error) { return e, nil }
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(9), fairlimit.WithEngine(build), fairlimit.WithReplicas(1))
		require.NoError(t, err)
		var callers sync.WaitGroup
		for _, n := range []int{1, 1, refusedPermits} { // the first goes alone, the others together
			callers.Go(func() {
				err := l.WaitN(t.Context(), n)
				if n == refusedPermits {
					assert.ErrorAs(t, err, new(*fairlimit.RefusedError))
				} else {
					assert.ErrorIs(t, err, fairlimit.ErrNotReplicated)
				}
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(t, 2, e.most)
	})
}

func TestReplicasThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, -1, 1001} {
		_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithReplicas(n))
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption, "%d", n)
	}
	unknown := struct{ *redis.Client }{nowhere(t)}
	_, err := fairlimit.New(unknown, "n", fairlimit.PerSecond(1), fairlimit.WithReplicas(1))
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	_, err = fairlimit.New(unknown, "n", fairlimit.PerSecond(1))
	require.NoError(t, err)
}
