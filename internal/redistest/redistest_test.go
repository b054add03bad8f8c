package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4)
	redistest.Main(m)
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

func TestABubbleEndsThoughCallersHaveGoneAway(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			go rdb.Ping(ctx)
			cancel()
		}
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
