package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestNamesAreNotRepeated(t *testing.T) {
	a, b := redistest.Name(t), redistest.Name(t)
	assert.NotEqual(t, a, b)
	assert.Contains(t, a, t.Name())
}

func TestEachKindOfServerKeepsTime(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		long, short := redistest.Name(t), redistest.Name(t)
		require.NoError(t, rdb.Set(t.Context(), long, "x", time.Minute).Err())
		require.NoError(t, rdb.Set(t.Context(), short, "x", 50*time.Millisecond).Err())
		time.Sleep(60 * time.Millisecond)
		left, err := rdb.PTTL(t.Context(), long).Result()
		require.NoError(t, err)
		assert.LessOrEqual(t, left, time.Minute-60*time.Millisecond)
		assert.Positive(t, left)
		assert.ErrorIs(t, rdb.Get(t.Context(), short).Err(), redis.Nil)
	})
}

func TestTestsShareOneStandaloneServer(t *testing.T) {
	key := redistest.Name(t)
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.Standalone(t)
			require.NoError(t, rdb.Incr(t.Context(), key).Err())
		})
	}
	n, err := redistest.Standalone(t).Get(t.Context(), key).Int()
	require.NoError(t, err)
	assert.Equal(t, 2, n)
}

func TestNoGoroutineOutlivesATest(t *testing.T) {
	t.Run("test", func(t *testing.T) {
		for _, rdb := range []redis.UniversalClient{
			redistest.Standalone(t), redistest.StartServer(t).Client(), redistest.Mini(t).Client,
			redistest.Cluster(t), redistest.Sentinel(t).Client,
		} {
			require.NoError(t, rdb.Set(t.Context(), redistest.Name(t), "v", time.Minute).Err())
		}
	})
	buf := make([]byte, 1<<20)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		stacks := string(buf[:runtime.Stack(buf, true)])
		for _, origin := range []string{"go-redis", "miniredis", "os/exec"} {
			assert.NotContains(t, stacks, origin)
		}
	}, 5*time.Second, 10*time.Millisecond)
}

func TestABubbleHasItsOwnClock(t *testing.T) {
	for range 3 { // a bubble must leave nothing behind that the next one trips over
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
			before, err := rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			time.Sleep(24 * time.Hour)
			after, err := rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			assert.Equal(t, 24*time.Hour, after.Sub(before))
			assert.True(t, after.Equal(time.Now()))
		})
	}
}

func TestABubbleTakesHundredsOfCallersAtOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		const callers = 500
		count := redis.NewScript(`return redis.call("incr", KEYS[1])`)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() { assert.NoError(t, count.Run(t.Context(), rdb, []string{"n"}).Err()) })
		}
		wg.Wait()
		n, err := rdb.Get(t.Context(), "n").Int()
		require.NoError(t, err)
		assert.Equal(t, callers, n)
	})
}

func TestABubbleEndsThoughCallersHaveGoneAway(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			go rdb.Ping(ctx)
			cancel()
		}
	})
}

func TestClientsOfOneMiniServerShareItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		require.NoError(t, m.Client.Set(t.Context(), "k", "v", 0).Err())
		v, err := m.NewClient(t).Get(t.Context(), "k").Result()
		require.NoError(t, err)
		assert.Equal(t, "v", v)

		m.SetTime(time.Unix(1_000_000_000, 0))
		now, err := m.Client.Time(t.Context()).Result()
		require.NoError(t, err)
		assert.Equal(t, int64(1_000_000_000), now.Unix())
	})
}

func TestAKilledServerComesBackEmptyAtTheSameAddress(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	addr := s.Addr()
	require.NoError(t, s.Client().Set(t.Context(), "k", "v", 0).Err())

	s.Kill()
	s.Kill() // no more dead than before
	_, err := net.Dial("tcp", addr)
	require.Error(t, err)

	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.ErrorIs(t, s.Client().Get(t.Context(), "k").Err(), redis.Nil)
}

func TestAServerKeepsItsDataThroughARestartIfToldTo(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "always")
	require.NoError(t, s.Client().Set(t.Context(), "k", "v", 0).Err())
	s.Restart()
	v, err := s.Client().Get(t.Context(), "k").Result()
	require.NoError(t, err)
	require.Equal(t, "v", v)
}

func TestAPausedServerAnswersOnlyAfterItIsResumed(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	impatient := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 50 * time.Millisecond, MaxRetries: -1})
	defer impatient.Close()

	s.Pause()
	require.Error(t, impatient.Ping(t.Context()).Err())
	s.Resume()
	require.NoError(t, s.Client().Ping(t.Context()).Err())
}

func TestAServerIsGoneWithItsTest(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("test", func(t *testing.T) {
		s := redistest.StartServer(t)
		s.Pause() // even then
		addr = s.Addr()
	})
	_, err := net.Dial("tcp", addr)
	require.Error(t, err)
}

func TestAClusterServesEverySlotFromThreeMasters(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t)
	for range 100 {
		require.NoError(t, rdb.Set(t.Context(), redistest.Name(t), "v", time.Minute).Err())
	}

	var mu sync.Mutex
	masters := 0
	require.NoError(t, rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters++
		n, err := node.DBSize(ctx).Result()
		assert.Positive(t, n)
		return err
	}))
	assert.Equal(t, 3, masters)

	err := rdb.Eval(t.Context(), `return 1`, []string{"a", "b"}).Err()
	require.ErrorContains(t, err, "CROSSSLOT", "a cluster must refuse keys of several slots")
}

func TestTheClientOfASentinelGroupFollowsTheMaster(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	require.NoError(t, g.Client.Set(t.Context(), "k", "before", 0).Err())
	replicas, err := g.Client.Wait(t.Context(), 1, 5*time.Second).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), replicas)

	g.Master.Kill()
	require.Eventually(t, func() bool {
		return g.Client.Set(t.Context(), "k", "after", 0).Err() == nil
	}, 20*time.Second, 50*time.Millisecond)
	v, err := g.Replica.Client().Get(t.Context(), "k").Result()
	require.NoError(t, err)
	require.Equal(t, "after", v)
}

// TestAServerIsGoneWithItsTestBinary kills another run of this binary, in which
// this same test starts a server and waits.
func TestAServerIsGoneWithItsTestBinary(t *testing.T) {
	t.Parallel()
	const inner = "REDISTEST_INNER"
	if os.Getenv(inner) != "" {
		s := redistest.StartServer(t)
		fmt.Println(s.Addr())
		select {}
	}
	_ = redistest.Standalone(t) // skips where there is no Redis

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inner+"=1")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	addr = strings.TrimSpace(addr)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, 10*time.Second, 10*time.Millisecond)
}
