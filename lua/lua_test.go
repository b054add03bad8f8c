package lua_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

func TestAnErrorNamesThePartAndItsLine(t *testing.T) {
	rdb := redistest.Standalone(t)
	require.NoError(t, rdb.Set(t.Context(), "{named}:value", "1", 0).Err())
	require.NoError(t, rdb.RPush(t.Context(), "named", "no hash").Err())
	script := lua.Assemble("window", "head", "count", "wait", "read")
	_, err := script.Run(t.Context(), rdb, []string{"named", "{named}:value", "a", "b", "c"}, "", "", "")
	require.Error(t, err)
	require.Contains(t, err.Error(), "lua/window/head.lua:")
	require.NotContains(t, err.Error(), "user_script")
	require.True(t, redis.HasErrorPrefix(err, "WRONGTYPE"))
}

func TestAPartThatDoesNotExistIsNoticedAtOnce(t *testing.T) {
	require.Panics(t, func() { lua.Assemble("window", "nothing") })
}
