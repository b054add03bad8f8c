package embedded_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func Example() {
	server, err := embedded.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	ctx := context.Background()
	if err := server.Client().Set(ctx, "greeting", "hello", 0).Err(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Client().Get(ctx, "greeting").Val())
	// Output: hello
}

func start(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestKeysExpireAsTimePasses(t *testing.T) {
	s := start(t)
	require.NoError(t, s.Client().Set(t.Context(), "k", "v", 150*time.Millisecond).Err())

	time.Sleep(50 * time.Millisecond)
	left, err := s.Client().PTTL(t.Context(), "k").Result()
	require.NoError(t, err)
	assert.LessOrEqual(t, left, 100*time.Millisecond)

	time.Sleep(150 * time.Millisecond)
	require.ErrorIs(t, s.Client().Get(t.Context(), "k").Err(), redis.Nil)
}

func TestTheServersTimeIsTheMachines(t *testing.T) {
	now, err := start(t).Client().Time(t.Context()).Result()
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), now, time.Minute)
}

func TestSeveralClientsShareAServer(t *testing.T) {
	s := start(t)
	for range 3 {
		other := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer other.Close()
		require.NoError(t, other.Incr(t.Context(), "n").Err())
	}
	n, err := s.Client().Get(t.Context(), "n").Int()
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}

func TestScriptsRunByTheirHash(t *testing.T) {
	s := start(t)
	script := redis.NewScript(`return redis.call("INCRBY", KEYS[1], ARGV[1])`)
	require.True(t, redis.HasErrorPrefix(script.EvalSha(t.Context(), s.Client(), []string{"n"}, 2).Err(), "NOSCRIPT"))
	require.NoError(t, script.Load(t.Context(), s.Client()).Err())
	n, err := script.EvalSha(t.Context(), s.Client(), []string{"n"}, 2).Int()
	require.NoError(t, err)
	assert.Equal(t, 2, n)
}

func TestServersAreApart(t *testing.T) {
	a, b := start(t), start(t)
	require.NotEqual(t, a.Addr(), b.Addr())
	require.NoError(t, a.Client().Set(t.Context(), "k", "v", 0).Err())
	require.ErrorIs(t, b.Client().Get(t.Context(), "k").Err(), redis.Nil)
}

func TestCloseEndsEverything(t *testing.T) {
	s, err := embedded.Start()
	require.NoError(t, err)
	other := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1})
	defer other.Close()
	require.NoError(t, other.Ping(t.Context()).Err())
	require.NoError(t, s.Client().Ping(t.Context()).Err())

	s.Close()
	s.Close()
	require.ErrorIs(t, s.Client().Ping(t.Context()).Err(), redis.ErrClosed)
	l, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err, "the port must be free")
	require.NoError(t, l.Close())

	require.Eventually(t, func() bool { // what has been told to end needs a processor to do so
		buf := make([]byte, 1<<20)
		return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "miniredis")
	}, 5*time.Second, time.Millisecond, "a goroutine is left")
}
