package faults_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Loud. READONLY may be over soon: it is told just before an answer is overdue.
func TestARefusalIsAnErrorThatNamesTheCauseAndConsumesNothing(t *testing.T) {
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
			if cause == "NOREPLICAS" && isRedis6(t) {
				return // in scripts it does not look at replicas
			}
			server := redistest.StartServer(t)
			for name, e := range engines {
				rdb, _ := client(t, server.Addr(), time.Second)
				l := limiterOn(t, rdb, e)
				require.NoError(t, l.Wait(t.Context()))
				require.NoError(t, server.Client().Do(t.Context(), c.refuse...).Err())
				allowed, err := l.Allow(t.Context())
				require.False(t, allowed)
				require.ErrorContains(t, err, cause, name)
				require.ErrorAs(t, err, new(redis.Error))
				require.False(t, unavailable(err), err)
				require.NoError(t, server.Client().Do(t.Context(), c.mend...).Err())
				require.Equal(t, 9, status(t, l).Available, "nothing was consumed")
				require.NoError(t, l.Wait(t.Context()))
			}
		})
	}
}

func TestAWrongPasswordIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	addr := redistest.Standalone(t).Options().Addr
	rdb := redis.NewClient(&redis.Options{Addr: addr, Username: "limited", Password: "wrong"})
	defer redistest.Close(rdb)
	allowed, err := limiter(t, rdb, fairlimit.PerHour(5)).Allow(t.Context())
	require.False(t, allowed)
	require.ErrorContains(t, err, "WRONGPASS")
	require.ErrorAs(t, err, new(redis.Error))
}

func TestTheACLInTheManualIsEnoughAndNoCommandTooMany(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/OPERATE.md")
	require.NoError(t, err)
	_, acl, found := strings.Cut(string(manual), "ACL SETUSER limited ")
	require.True(t, found)
	acl, _, _ = strings.Cut(acl, "```")
	all := strings.Fields(strings.ReplaceAll(acl, "\\", ""))
	server := redistest.StartServer(t)
	for i := range len(all) + 1 {
		words := []any{"acl", "setuser", "limited", "reset"}
		for j, word := range all {
			if j != i || word[0] != '+' {
				words = append(words, word)
			}
		}
		require.NoError(t, server.Client().Do(t.Context(), words...).Err())
		require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
		err := useAll(t, server)
		require.Equal(t, i < len(all) && all[i][0] == '+', err != nil, "%d: %v", i, err)
	}
}

// useAll uses all that a queue can do.
func useAll(t *testing.T, server *redistest.Server) error {
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "limited", Password: "secret"})
	defer redistest.Close(rdb)
	ctx, q := t.Context(), limiter(t, rdb, fairlimit.PerHour(5), fairlimit.WithStoredQuota(),
		fairlimit.WithUnit("tokens", fairlimit.PerHour(100)))
	flow, err := q.Flow("billing", 1)
	err = errors.Join(err, q.LearnQuotas(ctx, fairlimit.PerHour(4)), flow.Wait(ctx), flow.Wait(ctx), flow.Wait(ctx))
	if err != nil {
		return err
	}
	r, err := q.ReserveAmounts(ctx, fairlimit.Amounts{"": 2, "tokens": 50})
	if err != nil {
		return err
	}
	_, err = q.Status(ctx)
	return errors.Join(err, r.Cancel(ctx), q.Pause(ctx, time.Minute), q.Resume(ctx), q.Requeue(ctx),
		q.ForgetQuotas(ctx), q.Reset(ctx))
}

func TestWhatIsOverByItselfIsWaitedFor(t *testing.T) {
	t.Parallel()
	for refusal, c := range map[string]struct{ begin, end []any }{
		"READONLY": {[]any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		"LOADING":  {[]any{"debug", "reload"}, []any{"config", "set", "key-load-delay", 0}},
	} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			if isRedis6(t) {
				return
			}
			admin := redistest.StartServer(t, "--enable-debug-command", "yes", "--key-load-delay", "20000",
				"--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no").Client()
			for i := range 1000 { // that take 20 s to load
				require.NoError(t, admin.Set(t.Context(), fmt.Sprint(i), strings.Repeat("x", 2000), 0).Err())
			}
			l := limiter(t, admin, fairlimit.PerHour(100))
			require.NoError(t, l.Wait(t.Context()))
			var all sync.WaitGroup
			all.Go(func() { assert.NoError(t, admin.Do(t.Context(), c.begin...).Err()) })
			eventually(t, func() bool {
				return redis.HasErrorPrefix(admin.Set(t.Context(), "x", "", 0).Err(), refusal)
			}, "it has begun")
			before := refusals(t, admin, refusal)
			for range 20 {
				all.Go(func() { assert.NoError(t, l.Wait(t.Context())) })
			}
			eventually(t, func() bool { return refusals(t, admin, refusal) != before }, "callers were refused")
			require.NoError(t, admin.Do(t.Context(), c.end...).Err())
			all.Wait()
			require.Equal(t, 100-1-20, status(t, l).Available)
		})
	}
}

// refusals is how often a server refused with an error.
func refusals(t *testing.T, server *redis.Client, err string) string {
	return server.InfoMap(t.Context(), "errorstats").Item("Errorstats", "errorstat_"+err)
}
