package window_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// onRedis runs f in a bubble with a client of a real server, which all tests
// share. The bubble's clock is the server's: scripts and TIME see it. It stands
// still while a command is under way. Only how long a key lives is counted in
// real time.
func onRedis(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	addr := redistest.Standalone(t).Options().Addr
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{
			Addr:                     addr,
			ReadTimeout:              time.Minute,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(bubbleClock{})
		f(t, rdb)
	})
}

// bubbleClock gives the bubble's time to all that ask the server for its own.
type bubbleClock struct{ redis.Hook }

func (bubbleClock) DialHook(next redis.DialHook) redis.DialHook { return next }

func (bubbleClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (bubbleClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if asked, ok := cmd.(*redis.TimeCmd); ok {
			asked.SetVal(time.Now())
			return nil
		}
		script, ok := cmd.(interface{ SetVal(any) })
		switch {
		case ok && cmd.Name() == "evalsha": // to see the source
			cmd.SetErr(unknownScript{})
			return cmd.Err()
		case ok && cmd.Name() == "eval":
			timed := redis.NewCmd(ctx, atTime(cmd.Args(), time.Now())...)
			err := next(ctx, timed)
			cmd.SetErr(err)
			script.SetVal(timed.Val())
			return err
		}
		return next(ctx, cmd)
	}
}

// atTime is an EVAL with the time as two further arguments, which the script
// takes instead of the server's.
func atTime(eval []any, now time.Time) []any {
	timed := append([]any{}, eval...)
	timed[1] = strings.Replace(eval[1].(string), "redis.call('TIME')", "{ table.remove(ARGV), table.remove(ARGV) }", 1)
	return append(timed, now.UnixMicro()%1_000_000, now.Unix())
}

type unknownScript struct{}

var _ redis.Error = unknownScript{}

func (unknownScript) Error() string { return "NOSCRIPT this server is asked by EVAL" }
func (unknownScript) RedisError()   {}
