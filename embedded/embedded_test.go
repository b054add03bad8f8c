package embedded_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
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

func TestKeysExpireAsTimePasses(t *testing.T) {
	s, err := embedded.Start()
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Client().Set(t.Context(), "k", "v", 150*time.Millisecond).Err())
	time.Sleep(50 * time.Millisecond)
	assert.LessOrEqual(t, s.Client().PTTL(t.Context(), "k").Val(), 100*time.Millisecond)
	time.Sleep(150 * time.Millisecond)
	require.ErrorIs(t, s.Client().Get(t.Context(), "k").Err(), redis.Nil)
}

// What still runs in the end fails TestMain.
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
}

// A new version of Go may tell of bubbles in other words: then this hangs.
func TestABubbleGetsAnErrorAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			_, err := embedded.Start()
			require.ErrorIs(t, err, embedded.ErrBubble)
		}
		done := make(chan error)
		go func() {
			_, err := embedded.Start()
			done <- err
		}()
		require.ErrorIs(t, <-done, embedded.ErrBubble, "in a goroutine of the bubble, too")
	})
}
