package faults_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// What an ACL has to allow, as docs/RELIABILITY.md says.
const (
	fairCommands   = "EVALSHA EVAL TIME GET GETRANGE SETRANGE PTTL PEXPIRE PSETEX"
	storedCommands = fairCommands + " SET"
	windowCommands = "EVALSHA EVAL TIME GET SET INCRBY EXISTS HMGET HSET PTTL PEXPIRE PERSIST DEL " +
		"ZADD ZREM ZCARD ZCOUNT ZRANGE ZSCORE ZRANGEBYSCORE ZREMRANGEBYRANK"
)

// useFair does all that there is to do on fair. Its error joins what failed.
func useFair(ctx context.Context, rdb *redis.Client, name string) error {
	l, err := fairlimit.New(rdb, name, fairlimit.PerHour(2), fairlimit.WithExtraQuota(fairlimit.PerMinute(2)))
	if err != nil {
		return err
	}
	e, err := fair.New(engine.Config{Client: rdb, Name: name})
	if err != nil {
		return err
	}
	queue := e.(engine.Steerer)
	reserveAndCancel := func() error {
		turn, err := l.(fairlimit.Reserver).ReserveN(ctx, 1)
		if err != nil {
			return err
		}
		return turn.Cancel(ctx)
	}
	return errors.Join(
		l.Reset(ctx), // nobody knows of anything
		l.WaitN(ctx, 2),
		failure(l.Allow(ctx)),
		reserveAndCancel(),
		failure(l.Status(ctx)),
		failure(fair.Inspect(ctx, rdb, name)),
		queue.Pause(ctx, time.Minute),
		queue.Look(ctx),
		l.Reset(ctx),
	)
}

func failure[T any](_ T, err error) error { return err }

// useStored does all of that with quotas that are stored.
func useStored(ctx context.Context, rdb *redis.Client, name string) error {
	e, err := fair.New(engine.Config{Client: rdb, Name: name, Stored: true})
	if err != nil {
		return err
	}
	queue := e.(engine.Steerer)
	return errors.Join(
		queue.SetQuotas(ctx, []engine.Quota{{Permits: 2, Per: time.Hour}}),
		failure(queue.Take(ctx, []engine.Request{{N: 1}})),
		useFair(ctx, rdb, name),
	)
}

// useWindow does all that there is to do on window, the administration included.
func useWindow(ctx context.Context, rdb *redis.Client, name string) error {
	admin, err := window.Open(rdb, name)
	if err != nil {
		return err
	}
	// A rate that expires, and one that does not.
	return errors.Join(useRate(ctx, rdb, name, time.Hour), useRate(ctx, rdb, name, 0), failure(admin.Delete(ctx)))
}

func useRate(ctx context.Context, rdb *redis.Client, name string, keep time.Duration) error {
	rate := window.Rate{Permits: 3000, Per: time.Hour, KeepAlive: keep} // nothing leaves it unasked
	brief := rate
	brief.Per = 200 * time.Millisecond
	quota, build := fairlimit.Quota{Permits: rate.Permits, Per: rate.Per}, window.With(window.KeepAlive(keep))
	l, errLimiter := fairlimit.New(rdb, name, quota, fairlimit.WithEngine(build))
	e, errEngine := build(engine.Config{Client: rdb, Name: name, Quota: engine.Quota(quota)})
	admin, errAdmin := window.Open(rdb, name)
	if err := errors.Join(errLimiter, errEngine, errAdmin); err != nil {
		return err
	}
	gone, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	err := errors.Join(
		l.Wait(ctx),
		failure(admin.TrySetRate(ctx, rate)),
		admin.SetRate(ctx, rate),
		l.WaitN(ctx, 2),
		failure(admin.UpdateRate(ctx, rate, true)),
		l.WaitN(ctx, 3),
		failure(admin.UpdateRate(ctx, rate, false)),
		l.WaitN(ctx, 3),
		failure(admin.Config(ctx)),
		failure(admin.AvailablePermits(ctx)),
		admin.Release(ctx, 2),
		admin.SetRate(ctx, brief),
		crowdWindow(ctx, e, brief.Per),
	)
	_ = l.Wait(gone)
	return errors.Join(err, failure(l.Status(ctx)), l.Reset(ctx))
}

// crowdWindow lets more grants leave the window at once than one question clears
// away. It asks for them in as few questions as possible. If that took longer
// than the window, it does all of it again.
func crowdWindow(ctx context.Context, e engine.Engine, per time.Duration) error {
	for {
		start := time.Now()
		for left := make([]engine.Request, 1100); len(left) > 0; {
			for i := range left {
				left[i].N = 1
			}
			answers, err := e.Take(ctx, left)
			if err != nil {
				return err
			}
			left = left[len(answers):]
		}
		together := time.Since(start) < per
		time.Sleep(per + 10*time.Millisecond) // they leave
		_, err := e.Take(ctx, []engine.Request{{N: 1}})
		if err != nil || together {
			return err
		}
	}
}

func TestAnACLNeedsToAllowWhatIsWrittenAndNoLess(t *testing.T) {
	t.Parallel()
	prefixed := func(string) []string { return []string{"~fairlimit:*"} }
	for name, c := range map[string]struct {
		commands string
		keys     func(name string) []string
		use      func(ctx context.Context, rdb *redis.Client, name string) error
	}{
		"fair":                     {fairCommands, prefixed, useFair},
		"fair, with stored quotas": {storedCommands, prefixed, useStored},
		"window": {
			windowCommands,
			func(name string) []string { return []string{"~" + name, "~{" + name + "}:*"} },
			useWindow,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			commands := strings.Fields(c.commands)
			use := func(commands, keys []string) error {
				admin := server.Client()
				words := []any{"acl", "setuser", "limited", "reset", "on", ">secret"}
				for _, key := range keys {
					words = append(words, key)
				}
				for _, command := range commands {
					words = append(words, "+"+strings.ToLower(command))
				}
				require.NoError(t, admin.Do(t.Context(), words...).Err())
				require.NoError(t, admin.ScriptFlush(t.Context()).Err())
				require.NoError(t, admin.FlushAll(t.Context()).Err())
				rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "limited", Password: "secret"})
				defer redistest.Close(rdb)
				return c.use(t.Context(), rdb, "limiter")
			}
			require.NoError(t, use(commands, c.keys("limiter")), "all that is written suffices")
			for i, command := range commands {
				err := use(slices.Delete(slices.Clone(commands), i, i+1), c.keys("limiter"))
				require.ErrorAs(t, err, new(redis.Error), "without %s", command)
			}
			require.Error(t, use(commands, []string{"~another:*"}), "its keys are needed")
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
		for command := range strings.FieldsSeq(fairCommands) {
			words = append(words, "+"+strings.ToLower(command))
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
