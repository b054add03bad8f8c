package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestCheckFindsNothingMissing(t *testing.T) {
	s := newShell(t)
	out := s.does("check")
	require.NotRegexp(t, "MISSING|without", out)
	require.Regexp(t, `^checking what limiters need, of Redis at \S+, under \S+\n`, out)
	require.Regexp(t, `(?m)^  ok +EVALSHA$(.*\n)+  ok +a turn, its settling, and what steers a queue\n$`, out)
	require.Empty(t, s.rdb.Keys(t.Context(), s.prefix+"*").Val(), "it leaves nothing behind")
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--maxmemory-policy", "allkeys-lru")
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "clerk", "on", ">pass", "~fairlimit:*",
		"+@all", "-zremrangebyscore", "-set", "-scan").Err())
	out := at(t, "clerk:pass@"+server.Addr()).ends(1, "check", "missing: 2 of what a limiter needs")
	assert.Regexp(t, `(?m)^  MISSING +ZREMRANGEBYSCORE in a script\n +\S+`, out)
	assert.Regexp(t, `(?m)^  without +SET in a script: no stored quotas`, out)
	assert.Regexp(t, `(?m)^  without +SCAN: no fairlimit ls$`, out)
	assert.Regexp(t, `(?m)^  ok +PTTL in a script$`, out)
	assert.Contains(t, out, " maxmemory_policy:allkeys-lru: want noeviction")
}
