package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestCheckFindsNothingMissing(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	out := s.does("check")
	require.NotRegexp(t, "MISSING|without", out)
	require.Regexp(t, `^checking what limiters need, of Redis at \S+, under \S+\n`, out)
	require.Regexp(t, `(?m)^  ok +EVALSHA$(.*\n)+  ok +a turn, its settling, and what steers a queue\n$`, out)
	require.Empty(t, s.rdb.Keys(t.Context(), s.prefix+"*").Val(), "it leaves nothing behind")
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "clerk", "on", ">pass", "~fairlimit:*",
		"+evalsha", "+eval", "+time", "+get", "+pttl", "+pexpire", "+psetex", "+del", "+zadd", "+zcard", "+zscore",
		"+zrange", "+zrevrange", "+zrangebyscore", "+zrem", "+zremrangebyrank").Err())
	s := &shell{t: t, env: []string{"FAIRLIMIT_REDIS=clerk:pass@" + server.Addr()}}
	r := s.run("check")
	assert.Equal(t, 1, r.status)
	assert.Regexp(t, `(?m)^  MISSING +ZREMRANGEBYSCORE in a script\n +\S+`, r.out)
	assert.Regexp(t, `(?m)^  without +SET in a script: no stored quotas`, r.out)
	assert.Regexp(t, `(?m)^  without +SCAN: no fairlimit ls$`, r.out)
	assert.Regexp(t, `(?m)^  ok +PTTL in a script$`, r.out)
	assert.Contains(t, r.err, "missing: 2 of what a limiter needs")

	require.NoError(t, server.Client().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	s = &shell{t: t, env: []string{"FAIRLIMIT_REDIS=" + server.Addr()}}
	require.Contains(t, s.does("check"), " maxmemory_policy:allkeys-lru: want noeviction")
}
