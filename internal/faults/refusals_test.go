package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestARefusingServerIsAnErrorThatNamesTheCause has the server refuse, for
// every cause that is not over by itself. READONLY may be: it is waited for, and
// told before an answer would be overdue.
func TestARefusingServerIsAnErrorThatNamesTheCause(t *testing.T) {
	t.Parallel()
	for cause, c := range map[string]struct{ refuse, mend []any }{
		"OOM": {[]any{"config", "set", "maxmemory", 1}, []any{"config", "set", "maxmemory", 0}},
		"NOREPLICAS": {
			[]any{"config", "set", "min-replicas-to-write", 1}, []any{"config", "set", "min-replicas-to-write", 0},
		},
		"READONLY": {[]any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		"NOPERM":   {[]any{"acl", "setuser", "default", "-evalsha"}, []any{"acl", "setuser", "default", "+evalsha"}},
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			onEngines(t, func(t *testing.T, build maker) {
				server := redistest.StartServer(t)
				if cause == "NOREPLICAS" && !looksAtReplicasInScripts(t, server) {
					return
				}
				rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
				defer redistest.Close(rdb)
				l := build(t, rdb, redistest.Name(t), fairlimit.PerHour(5))
				require.NoError(t, l.Wait(t.Context()))

				require.NoError(t, server.Client().Do(t.Context(), c.refuse...).Err())
				allowed, err := l.Allow(t.Context())
				require.False(t, allowed)
				require.ErrorContains(t, err, cause)
				require.ErrorAs(t, err, new(redis.Error))
				for _, other := range []error{
					fairlimit.ErrState, fairlimit.ErrUnreachable, fairlimit.ErrOutcomeUnknown, context.DeadlineExceeded,
				} {
					require.NotErrorIs(t, err, other)
				}
				require.NoError(t, server.Client().Do(t.Context(), c.mend...).Err())
				require.Equal(t, 4, status(t, l).Available, "nothing was consumed")
				require.NoError(t, l.Wait(t.Context()))
			})
		})
	}
}

// TestAWrongPasswordIsAnErrorThatSaysSo also has a client without one, to whom
// Redis may say why, or hang up on a command of many words.
func TestAWrongPasswordIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	admin := server.Client().Conn()
	defer func() { _ = admin.Close() }()
	require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "secret").Err())
	for _, password := range []string{"wrong", ""} {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password})
		allowed, err := limiter(t, rdb, fairlimit.PerHour(5)).Allow(t.Context())
		require.Error(t, err)
		require.False(t, allowed)
		if password != "" {
			require.ErrorContains(t, err, "WRONGPASS")
			require.ErrorAs(t, err, new(redis.Error))
		}
		require.NoError(t, rdb.Close())
	}
}

// TestAServerWithoutRoomForAClientIsAnErrorAndNeverLeave has nothing but an end
// of the connection to go by: Redis says why, and hangs up before it is asked.
func TestAServerWithoutRoomForAClientIsAnErrorAndNeverLeave(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	admin := server.Client().Conn()
	defer func() { _ = admin.Close() }()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer redistest.Close(rdb)
	l := limiter(t, rdb, fairlimit.PerHour(5))
	require.NoError(t, l.Wait(t.Context()))
	require.NoError(t, admin.ConfigSet(t.Context(), "maxclients", "1").Err())
	require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	for range 5 {
		allowed, err := l.Allow(t.Context())
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, allowed)
	}
	require.NoError(t, admin.ConfigSet(t.Context(), "maxclients", "100").Err())
	require.Equal(t, 4, status(t, l).Available, "nothing was consumed")
}

func TestAServerKeptBusyByAnothersScriptIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--lua-time-limit", "20")
	neighbour := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: -1, MaxRetries: -1})
	defer redistest.Close(neighbour)
	l := limiter(t, server.Client(), fairlimit.PerHour(5))
	require.NoError(t, l.Wait(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- neighbour.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err() }()
	require.Eventually(t, func() bool {
		return redis.HasErrorPrefix(server.Client().Get(t.Context(), "k").Err(), "BUSY")
	}, 5*time.Second, time.Millisecond)

	err := l.Wait(t.Context())
	require.ErrorContains(t, err, "BUSY")
	require.ErrorAs(t, err, new(redis.Error))
	require.NoError(t, server.Client().ScriptKill(t.Context()).Err())
	require.Error(t, <-ended)
	require.Equal(t, 4, status(t, l).Available)
}

// TestWhatIsOverByItselfIsWaitedFor has servers that refuse for a while.
func TestWhatIsOverByItselfIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, begins := range map[string][]any{
		"READONLY":     {"replicaof", "127.0.0.1", "1"},
		"CLIENT PAUSE": {"client", "pause", 300, "all"},
	} {
		onEngines(t, func(t *testing.T, build maker) {
			server := redistest.StartServer(t)
			l := build(t, server.Client(), redistest.Name(t), fairlimit.PerHour(100))
			require.NoError(t, l.Wait(t.Context()))
			require.NoError(t, server.Client().Do(t.Context(), begins...).Err())
			var callers sync.WaitGroup
			for range 20 {
				callers.Go(func() { assert.NoError(t, l.Wait(t.Context()), name) })
			}
			require.Error(t, prompt(t, 100*time.Millisecond, "Wait", l.Wait), "a deadline still counts")
			time.Sleep(200 * time.Millisecond) // meanwhile all are refused
			require.NoError(t, server.Client().ReplicaOf(t.Context(), "no", "one").Err())
			callers.Wait()
			require.Eventually(t, func() bool { return status(t, l).Available == 100-1-20 },
				5*time.Second, 10*time.Millisecond, "who left has given its turn back")
		})
	}
}

// TestAFullServerNeverGrantsBeyondTheQuota fills a server under each policy, of
// which some evict the key.
func TestAFullServerNeverGrantsBeyondTheQuota(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{
		"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
		"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			const permits = 100
			rdb := redistest.StartServer(t, "--maxmemory-policy", policy).Client()
			l := limiter(t, rdb, fairlimit.PerHour(permits))
			require.NoError(t, l.Wait(t.Context()))
			used, err := strconv.Atoi(rdb.InfoMap(t.Context(), "memory").Val()["Memory"]["used_memory"])
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used+1<<19)).Err())
			junk, granted := strings.Repeat("x", 10_000), 1
			for i := range 400 {
				_ = rdb.Set(t.Context(), fmt.Sprint("junk", i), junk, time.Duration(i%2)*time.Hour).Err()
				allowed, err := l.Allow(t.Context())
				if err != nil {
					require.ErrorContains(t, err, "OOM")
					require.ErrorAs(t, err, new(redis.Error))
				}
				if allowed {
					granted++
				}
			}
			evicted := rdb.InfoMap(t.Context(), "stats").Val()["Stats"]["evicted_keys"]
			t.Logf("%d granted of %d, %s keys were evicted", granted, permits, evicted)
			require.LessOrEqual(t, granted, permits)
		})
	}
}

// TestAnACLOfAClusterNeedsToAllowItsMapAsWell is about what go-redis asks of a
// cluster before it sends anything on.
func TestAnACLOfAClusterNeedsToAllowItsMapAsWell(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	for _, also := range []string{"", "+cluster|slots"} {
		words := []any{"acl", "setuser", "limited", "reset", "on", ">secret", "~fairlimit:*"}
		for command := range strings.FieldsSeq("evalsha eval time get getrange setrange pttl pexpire psetex") {
			words = append(words, "+"+command)
		}
		if also != "" {
			words = append(words, also)
		}
		for _, node := range append(slices.Clone(g.Masters), g.Replica) {
			require.NoError(t, node.Client().Do(t.Context(), words...).Err())
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{g.Masters[0].Addr()}, Username: "limited", Password: "secret",
		})
		l := limiter(t, rdb, fairlimit.PerHour(2))
		allowed, err := l.Allow(t.Context())
		require.NoError(t, rdb.Close())
		if also == "" {
			require.ErrorContains(t, err, "NOPERM")
			continue
		}
		require.NoError(t, err)
		require.True(t, allowed)
	}
}

// TestAStateOfAnotherVersionEnds is with an earlier version and a later one. It
// is an error while there is a state of that version, and then a queue of ours.
func TestAStateOfAnotherVersionEnds(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Standalone(t), redistest.Name(t)
	key := limitertest.Key(name)
	require.NoError(t, named(t, rdb, name, fairlimit.PerHour(1)).Wait(t.Context()))
	own := rdb.Get(t.Context(), key).Val()
	for _, version := range []string{"fair4", "fair6"} {
		other := version + strings.TrimPrefix(own, "fair5")
		require.NotEqual(t, other, own)
		require.NoError(t, rdb.Set(t.Context(), key, other, 200*time.Millisecond).Err())
		l := named(t, rdb, name, fairlimit.PerHour(1)) // it knows of no turn
		_, err := l.Allow(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrState)
		require.Equal(t, other, rdb.Get(t.Context(), key).Val(), "it is left alone")
		gone := func() bool { return rdb.Exists(t.Context(), key).Val() == 0 }
		require.Eventually(t, gone, 10*time.Second, time.Millisecond)
		require.NoError(t, l.Wait(t.Context()))
	}
}
