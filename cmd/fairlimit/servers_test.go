package main

import (
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestOnServersOfEachKind(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t).Options().Addrs
	sentinel := redistest.Sentinel(t).Sentinel
	socket := filepath.Join(t.TempDir(), "s")
	server, secure, _ := redistest.StartTLSServer(t, "--tls-auth-clients", "no", "--unixsocket", socket)
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "clerk", "on", ">pass", "~fairlimit:*",
		"+evalsha", "+eval", "+time", "+get", "+pttl", "+pexpire", "+psetex", "+scan", "+del", "+set", "+zadd",
		"+zcard", "+zrange", "+zrangebyscore", "+zrem", "+zremrangebyscore", "+zscore", "+zrevrange",
		"+zremrangebyrank").Err())
	for _, address := range []string{
		"redis+cluster://" + nodes[0] + "?addr=" + nodes[1],
		"redis+sentinel://" + sentinel.Addr() + "?master_name=fairlimit",
		"rediss://" + secure + "?skip_verify=true",
		"unix://clerk:pass@" + socket, // all that limiters and flows need, and SCAN
	} {
		s := at(t, address)
		s.prefix += redistest.Name(t) + ":"
		for _, name := range []string{"a", "b", "c", "d", "e"} { // on every node of a Cluster
			require.Equal(t, "hello\n", s.does("wait "+name+" -quota 1/1h -- echo hello"))
		}
		require.Regexp(t, `^NAME .*\na .*\nb +0 +0s +no +unknown\nc .*\nd .*\ne .*\n$`, s.does("ls"))
		require.Contains(t, s.does("look a"), "  backlog   0\n")
		require.Contains(t, s.does("pause a 1h"), "  paused    for ")
		require.Contains(t, s.does("reset a -yes"), "  paused    no\n")
	}
	for address, complains := range map[string]string{
		"rediss://" + secure:                "certificate",
		"redis+cluster://" + secure:         secure + "(?s:.*)if that is a TLS port, use rediss://",
		"rediss+cluster://" + server.Addr(): server.Addr() + "(?s:.*)if that port is without TLS, use redis://",
	} {
		at(t, address).ends(3, "ls", complains)
	}

	require.NoError(t, sentinel.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">s3cret").Err())
	s := at(t, "redis+sentinel://"+sentinel.Addr()+"?master_name=fairlimit")
	s.ends(1, "look tax", `that of the Sentinels is \$FAIRLIMIT_SENTINEL_PASSWORD`)
	s.env = append(s.env, "FAIRLIMIT_SENTINEL_PASSWORD=s3cret")
	s.does("look tax")
}

func TestAPasswordOfTheEnvironment(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	client, addr := server.Client(), server.Addr()
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "clerk", "on", ">s3cr&t", "~*", "+@all").Err())
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">s3cr&t").Err())
	at(t, "redis://:s3cr&t@"+addr, "REDISCLI_AUTH=wrong").does("look tax")
	at(t, addr, "FAIRLIMIT_REDIS_PASSWORD=s3cr&t", "REDISCLI_AUTH=wrong").does("look tax")
	at(t, "clerk@"+addr, "REDISCLI_AUTH=s3cr&t").does("look tax")
	status, _, problems := at(t, ":wr0ng@"+addr).run("ls", "")
	assert.Equal(t, 1, status)
	assert.Regexp(t, `WRONGPASS(?s:.*)\$FAIRLIMIT_REDIS_PASSWORD`, problems)
	assert.NotContains(t, problems, "wr0ng")
}

func TestARedisThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	s := at(t, server.Addr())
	s.does("look tax")
	server.Pause()
	s.ends(3, "ls -redis "+server.Addr()+"?read_timeout=100ms", "")
	s.ends(3, "look tax -redis "+server.Addr()+"?read_timeout=100ms", "")
	require.Empty(t, s.ends(123, "wait tax -quota 1/1s -timeout 100ms -- echo hello",
		`Redis did not answer: a turn that it grants may pass unused\)\n`))
	server.Resume()
	s.does("wait tax -quota 1/1s -timeout 1m -- true")
}

func TestRedisThatIsNotThere(t *testing.T) {
	t.Parallel()
	for line, status := range map[string]int{
		"ls": 3, "look a": 3, "pause a 1s": 3, "reset a -yes": 3, "quota a": 3, "quota a 1/1s": 3,
		"quota a -forget": 3, "requeue a": 3, "check": 3, "serve a=1/1s": 3, "wait a -quota 1/1s -- true": 123,
		"look a -redis redis+cluster://127.0.0.1:1?addr=127.0.0.1:2": 3, "ls -redis unix:///nowhere": 3,
		"ls -redis redis+sentinel://127.0.0.1:1?master_name=main": 3, "ls -redis redis://u:secret@127.0.0.1:1": 3,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got, _, problems := at(t, nowhere).run(line, "")
			assert.Equal(t, status, got)
			assert.Regexp(t, `^fairlimit: .*\nRedis was looked for at \S+: `+
				`-redis or \$FAIRLIMIT_REDIS says where it is\n$`, problems)
			assert.NotContains(t, problems, "secret")
		})
	}
}

// The rest of an address is go-redis's to read, or is seen above.
func TestEachNodeIsAskedForACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	c := &connection{address: "rediss+cluster://u:p@a:1?addr=b:2&skip_verify=true"}
	require.NoError(t, c.connect())
	require.Equal(t, "a:1,b:2", c.at)
	o := c.rdb.(*redis.ClusterClient).Options()
	assert.Empty(t, o.TLSConfig.ServerName)
	assert.True(t, o.TLSConfig.InsecureSkipVerify)
	assert.Equal(t, 1, o.DialerRetries, "it fails soon")
}

func TestNoErrorRepeatsAPieceOfAPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis://:secret", "redis://:secret/secret@h", "redis://u:secret@h:secret", "redis://u:sec%zzret@h",
		"redis://:secret?secret@h", "redis://:12#secret@h", "redis://u:12/secret@h", "redis://u:12?secret@h",
		"redis://u:secret@h/x/y", "redis://u:secret@h?nix=1", "redis://u:secret@h?read_timeout=x",
		"redis+sentinel://u:secret@h/m/x", "redis+cluster://u:secret@h?nix=1", "http://u:secret@h", "u:secret",
		"unix://u:secret@?nix=1", "redis:/u:secret@h",
	} {
		err := (&connection{address: text}).connect()
		require.Equal(t, statusUsage, status(err, false), text)
		require.NotContains(t, err.Error(), "secret", text)
	}
}
