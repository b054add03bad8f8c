package window_test

import (
	"context"
	"slices"
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
		t.Cleanup(func() { redistest.Close(rdb) })
		rdb.AddHook(editedScripts(atTime))
		f(t, rdb)
	})
}

// editedScripts is a hook that edits the EVAL of every script.
func editedScripts(edit func(eval []any) []any) redistest.Hook {
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		script, ok := cmd.(interface{ SetVal(any) })
		switch {
		case ok && cmd.Name() == "evalsha": // to see the source
			cmd.SetErr(unknownScript{})
			return cmd.Err()
		case ok && cmd.Name() == "eval":
			edited := redis.NewCmd(ctx, edit(cmd.Args())...)
			err := next(ctx, edited)
			cmd.SetErr(err)
			script.SetVal(edited.Val())
			return err
		}
		return next(ctx, cmd)
	}
}

// atTime adds the time of this process, which in a bubble is the bubble's, as
// two arguments. The script takes it instead of the server's.
func atTime(eval []any) []any {
	now := time.Now()
	timed := replaced(eval, "redis.call('TIME')", "{ table.remove(ARGV), table.remove(ARGV) }")
	return append(timed, now.UnixMicro()%1_000_000, now.Unix())
}

// countingFew has a run add up at most 3 grants, where it would add up 1000.
func countingFew(eval []any) []any {
	return replaced(eval, "local COUNTED = 1000", "local COUNTED = 3")
}

func replaced(eval []any, old, text string) []any {
	eval = slices.Clone(eval)
	eval[1] = strings.Replace(eval[1].(string), old, text, 1)
	return eval
}

type unknownScript struct{}

var _ redis.Error = unknownScript{}

func (unknownScript) Error() string { return "NOSCRIPT this server is asked by EVAL" }
func (unknownScript) RedisError()   {}
