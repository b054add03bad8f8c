package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// everything does what each command does, in a Redis where nothing else is.
func everything(t *testing.T, s *shell) {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e"} // on every node of a Cluster
	for _, name := range names {
		require.Equal(t, "hello\n", s.does("wait", name, "-quota", "1/1h", "--", "echo", "hello"))
	}
	require.Regexp(t, `^NAME .*\na .*\nb +0 +0s +no +unknown\nc .*\nd .*\ne .*\n$`, s.does("ls"))
	require.Contains(t, s.does("look", "a"), "  backlog   0\n")
	require.Contains(t, s.does("pause", "a", "1h"), "  paused    for ")
	require.Contains(t, s.does("reset", "a", "-yes"), "  paused    no\n")
	require.NotRegexp(t, `(?m)^a .*\dm`, s.does("ls"))
}

func TestOnServersOfEachKind(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t).Options().Addrs
	sentinel := redistest.Sentinel(t).Sentinel
	_, secure, _ := redistest.StartTLSServer(t, "--tls-auth-clients", "no")
	limited := redistest.StartServer(t)
	require.NoError(t, limited.Client().Do(t.Context(), "ACL", "SETUSER", "clerk", "on", ">pass", "~fairlimit:*",
		"+evalsha", "+eval", "+time", "+get", "+pttl", "+pexpire", "+psetex", "+scan", "+del", "+set", "+zadd",
		"+zcard", "+zrange", "+zrangebyscore", "+zrem", "+zremrangebyscore", "+zscore", "+zrevrange",
		"+zremrangebyrank").Err())
	for i, address := range []string{
		"redis+cluster://" + nodes[0] + "?addr=" + nodes[1],
		"redis+sentinel://" + sentinel.Addr() + "?master_name=fairlimit",
		"rediss://" + secure + "?skip_verify=true",
		"clerk:pass@" + limited.Addr(), // all that limiters and flows need, and SCAN
	} {
		s := &shell{t: t, prefix: fmt.Sprintf("fairlimit:%d:", i), env: []string{"FAIRLIMIT_REDIS=" + address}}
		everything(t, s)
	}
	r := finish(t, process([]string{"FAIRLIMIT_REDIS=rediss://" + secure}, "ls"))
	require.Equal(t, 3, r.status)
	require.Contains(t, r.err, "certificate")

	require.NoError(t, sentinel.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">s3cret").Err())
	s := &shell{t: t, env: []string{"FAIRLIMIT_REDIS=redis+sentinel://" + sentinel.Addr() + "?master_name=fairlimit"}}
	require.NotZero(t, s.run("look", "tax").status)
	s.env = append(s.env, "FAIRLIMIT_SENTINEL_PASSWORD=s3cret")
	s.does("look", "tax")
}

func TestAPasswordOfTheEnvironment(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	client := server.Client()
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "clerk", "on", ">s3cr&t", "~*", "+@all").Err())
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">s3cr&t").Err())
	for _, env := range [][]string{
		{"FAIRLIMIT_REDIS=redis://:s3cr&t@" + server.Addr()},
		{"FAIRLIMIT_REDIS=" + server.Addr(), "FAIRLIMIT_REDIS_PASSWORD=s3cr&t", "REDISCLI_AUTH=wrong"},
		{"FAIRLIMIT_REDIS=" + server.Addr(), "REDISCLI_AUTH=s3cr&t"},
		{"FAIRLIMIT_REDIS=clerk@" + server.Addr(), "FAIRLIMIT_REDIS_PASSWORD=s3cr&t"},
	} {
		assert.Contains(t, (&shell{t: t, env: env}).does("look", "tax"), "  paused    no\n")
	}
	for _, command := range []string{"ls", "look tax", "pause tax 1s", "wait tax -quota 1/1s -- true"} {
		r := (&shell{t: t, env: []string{"FAIRLIMIT_REDIS=:wr0ng@" + server.Addr()}}).run(strings.Fields(command)...)
		if r.status == 123 { // Redis may hang up on a command of many words before its answer is read
			continue
		}
		assert.Contains(t, []int{1, 125}, r.status, r.err)
		assert.Contains(t, r.err, "WRONGPASS")
		assert.Contains(t, r.err, "$FAIRLIMIT_REDIS_PASSWORD")
		assert.NotContains(t, r.err, "wr0ng")
	}
}

func TestARedisThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	s := &shell{t: t, env: []string{"FAIRLIMIT_REDIS=" + server.Addr()}}
	s.does("look", "tax")
	server.Pause()
	for _, command := range [][]string{{"ls"}, {"look", "tax"}} {
		r := s.run(append(command, "-redis", server.Addr()+"?read_timeout=100ms")...)
		assert.Equal(t, 3, r.status, r.err)
	}
	r := s.run("wait", "tax", "-quota", "1/1s", "-timeout", "100ms", "--", "echo", "hello")
	assert.Equal(t, 123, r.status, r.err)
	assert.Empty(t, r.out)
	assert.Contains(t, r.err, "Redis did not answer: a turn that it grants may pass unused)\n")
	server.Resume()
	s.does("wait", "tax", "-quota", "1/1s", "-timeout", time.Minute.String(), "--", "true")
}
