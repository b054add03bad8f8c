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

// useFair does all that there is to do on fair, and returns the first error.
func useFair(ctx context.Context, rdb *redis.Client, name string) error {
	l, err := fairlimit.New(rdb, name, fairlimit.PerHour(2), fairlimit.WithExtraQuota(fairlimit.PerMinute(2)))
	if err != nil {
		return err
	}
	if err := l.Reset(ctx); err != nil { // nobody knows of anything
		return err
	}
	if err := l.WaitN(ctx, 2); err != nil {
		return err
	}
	if _, err := l.Allow(ctx); err != nil {
		return err
	}
	turn, err := l.(fairlimit.Reserver).ReserveN(ctx, 1)
	if err != nil {
		return err
	}
	if err := turn.Cancel(ctx); err != nil {
		return err
	}
	if _, err := l.Status(ctx); err != nil {
		return err
	}
	if err := steerFair(ctx, rdb, name); err != nil {
		return err
	}
	return l.Reset(ctx)
}

// steerFair does what a queue can be steered by, without a limiter in front.
func steerFair(ctx context.Context, rdb *redis.Client, name string) error {
	e, err := fair.New(engine.Config{Client: rdb, Name: name})
	if err != nil {
		return err
	}
	queue := e.(engine.Steerer)
	_, err = fair.Inspect(ctx, rdb, name)
	return errors.Join(err, queue.Pause(ctx, time.Minute), queue.Look(ctx))
}

// useStored does all of that with quotas that are stored.
func useStored(ctx context.Context, rdb *redis.Client, name string) error {
	e, err := fair.New(engine.Config{Client: rdb, Name: name, Stored: true})
	if err != nil {
		return err
	}
	queue := e.(engine.Steerer)
	if err := queue.SetQuotas(ctx, []engine.Quota{{Permits: 2, Per: time.Hour}}); err != nil {
		return err
	}
	if _, err := queue.Take(ctx, []engine.Request{{N: 1}}); err != nil {
		return err
	}
	return useFair(ctx, rdb, name)
}

// useWindow does all that there is to do on window, the administration
// included, and returns the first error.
func useWindow(ctx context.Context, rdb *redis.Client, name string) error {
	admin, err := window.Open(rdb, name)
	if err != nil {
		return err
	}
	for _, keep := range []time.Duration{time.Hour, 0} { // a rate that expires, and one that does not
		rate := window.Rate{Permits: 3000, Per: time.Hour, KeepAlive: keep} // nothing leaves it unasked
		quota, build := fairlimit.Quota{Permits: rate.Permits, Per: rate.Per}, window.With(window.KeepAlive(keep))
		l, err := fairlimit.New(rdb, name, quota, fairlimit.WithEngine(build))
		if err != nil {
			return err
		}
		e, err := build(engine.Config{Client: rdb, Name: name, Quota: engine.Quota(quota)})
		if err != nil {
			return err
		}
		if err := l.Wait(ctx); err != nil {
			return err
		}
		if _, err := admin.TrySetRate(ctx, rate); err != nil {
			return err
		}
		if err := admin.SetRate(ctx, rate); err != nil {
			return err
		}
		if err := l.WaitN(ctx, 2); err != nil {
			return err
		}
		for _, keepState := range []bool{true, false} {
			if _, err := admin.UpdateRate(ctx, rate, keepState); err != nil {
				return err
			}
			if err := l.WaitN(ctx, 3); err != nil {
				return err
			}
		}
		if _, err := admin.Config(ctx); err != nil {
			return err
		}
		if _, err := admin.AvailablePermits(ctx); err != nil {
			return err
		}
		if err := admin.Release(ctx, 2); err != nil {
			return err
		}
		rate.Per = 200 * time.Millisecond
		if err := admin.SetRate(ctx, rate); err != nil {
			return err
		}
		if err := crowd(ctx, e, rate.Per); err != nil {
			return err
		}
		gone, cancel := context.WithTimeout(ctx, time.Nanosecond)
		cancel()
		_ = l.Wait(gone)
		if _, err := l.Status(ctx); err != nil {
			return err
		}
		if err := l.Reset(ctx); err != nil {
			return err
		}
	}
	_, err = admin.Delete(ctx)
	return err
}

// crowd lets more grants leave the window at once than one question clears
// away. It asks for them in as few questions as possible. If that took longer
// than the window, it does all of it again.
func crowd(ctx context.Context, e engine.Engine, per time.Duration) error {
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
		time.Sleep(per + 10*time.Millisecond)
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
				if err == nil {
					t.Errorf("%s is not needed", command)
					continue
				}
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
