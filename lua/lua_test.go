package lua_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestAnErrorNamesThePartAndItsLine(t *testing.T) {
	rdb := redistest.Standalone(t)
	require.NoError(t, rdb.Set(t.Context(), "{named}:value", "1", 0).Err())
	require.NoError(t, rdb.RPush(t.Context(), "named", "no hash").Err())
	script := lua.Assemble("window", "head", "count", "wait", "read")
	_, _, err := script.Run(t.Context(), rdb, []string{"named", "{named}:value", "a", "b", "c"}, "", "", "")
	require.Error(t, err)
	require.Contains(t, err.Error(), "lua/window/head.lua:")
	require.NotContains(t, err.Error(), "user_script")
	require.True(t, redis.HasErrorPrefix(err, "WRONGTYPE"))
}

func TestAPartThatDoesNotExistIsNoticedAtOnce(t *testing.T) {
	require.Panics(t, func() { lua.Assemble("window", "nothing") })
}

// reply is an error of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestAReplyThatProvesThatNothingWasWrittenIsWaitedFor(t *testing.T) {
	rdb := redistest.Mini(t).NewClient(t)
	var refused time.Time
	replies := []string{ // the last two are of a replica of Redis 6.2
		"TRYAGAIN ", "READONLY ", "LOADING Redis is loading the dataset in memory", "CLUSTERDOWN ", "MASTERDOWN ",
		"@user_script: 257: -READONLY You can't write against a read only replica. ",
		"ERR Error running script (call to f_6b1bf4): @user_script:257: @user_script: 257: " +
			"-READONLY You can't write against a read only replica. ",
	}
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if cmd.Name() != "evalsha" || len(replies) == 0 {
			return next(ctx, cmd)
		}
		err := reply(replies[0])
		replies, refused = replies[1:], time.Now()
		cmd.SetErr(err)
		return err
	}))
	got, sent, err := lua.New("return 7").Run(t.Context(), rdb, []string{"{old}"})
	require.NoError(t, err)
	require.False(t, sent.Before(refused), "it answers a later command")
	require.EqualValues(t, 7, got)
	require.Empty(t, replies)
}

func TestARingWithoutAServerIsUnreachable(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFrequency: time.Millisecond,
	})
	defer redistest.Close(ring)
	require.Eventually(t, func() bool { return ring.Len() == 0 }, 10*time.Second, time.Millisecond)
	_, _, err := lua.New("return 7").Run(t.Context(), ring, []string{"{old}"})
	require.ErrorIs(t, err, engine.ErrUnreachable)
	require.NotErrorIs(t, err, engine.ErrOutcomeUnknown)
}
