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
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4)
	redistest.Main(m)
}

// each runs f on miniredis and on a real server, both on the fake clock of a
// bubble.
func each(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) { f(t, rdb) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		onRedis(t, f)
	})
}

// limiter is one limiter as a test sees it: its engine, its administration, and
// its keys in Redis.
type limiter struct {
	t    testing.TB
	rdb  redis.UniversalClient
	name string
	engine.Engine
	*window.Admin
}

func newLimiter(
	t testing.TB, rdb redis.UniversalClient, permits int, per time.Duration, opts ...window.Option,
) *limiter {
	return namedLimiter(t, rdb, redistest.Name(t), permits, per, opts...)
}

func namedLimiter(
	t testing.TB, rdb redis.UniversalClient, name string, permits int, per time.Duration, opts ...window.Option,
) *limiter {
	t.Helper()
	quota := engine.Quota{Permits: permits, Per: per}
	e, err := window.With(opts...)(engine.Config{Client: rdb, Name: name, Quota: quota})
	require.NoError(t, err)
	return &limiter{t: t, rdb: rdb, name: name, Engine: e, Admin: open(t, rdb, name)}
}

func open(t testing.TB, rdb redis.UniversalClient, name string, opts ...window.Option) *window.Admin {
	t.Helper()
	a, err := window.Open(rdb, name, opts...)
	require.NoError(t, err)
	return a
}

func (l *limiter) ask(n int) engine.Answer {
	l.t.Helper()
	answers, _, err := l.Take(l.t.Context(), []engine.Request{{N: n}})
	require.NoError(l.t, err)
	require.Len(l.t, answers, 1)
	return answers[0]
}

func (l *limiter) allowed(n int) bool {
	l.t.Helper()
	a := l.ask(n)
	require.NoError(l.t, a.Err)
	return a.Verdict == engine.Granted
}

func (l *limiter) giveBack(turn engine.Turn) {
	l.t.Helper()
	require.NoError(l.t, l.GiveBack(l.t.Context(), []engine.Return{{Turn: turn, N: turn.N}}))
}

func (l *limiter) reset() {
	l.t.Helper()
	_, err := l.Reset(l.t.Context())
	require.NoError(l.t, err)
}

// fill takes so many grants of one permit.
func (l *limiter) fill(grants int) {
	l.t.Helper()
	for grants > 0 {
		requests := slices.Repeat([]engine.Request{{N: 1}}, min(grants, engine.MostRequests))
		answers, _, err := l.Take(l.t.Context(), requests)
		require.NoError(l.t, err)
		for _, a := range answers {
			require.Equal(l.t, engine.Granted, a.Verdict)
		}
		grants -= len(answers)
	}
}

func (l *limiter) available() int {
	l.t.Helper()
	n, err := l.AvailablePermits(l.t.Context())
	require.NoError(l.t, err)
	return n
}

// update changes the rate and keeps the state.
func (l *limiter) update(permits int, per time.Duration) {
	l.t.Helper()
	done, err := l.UpdateRate(l.t.Context(), window.Rate{Permits: permits, Per: per}, true)
	require.NoError(l.t, err)
	require.True(l.t, done)
}

func (l *limiter) status() engine.Status {
	l.t.Helper()
	s, err := l.Status(l.t.Context())
	require.NoError(l.t, err)
	return s
}

func (l *limiter) keys() []string { return []string{l.name, l.leftKey(), l.grantsKey()} }

// state is the content of the keys.
func (l *limiter) state() (all []any) {
	for _, key := range l.keys() {
		all = append(all, l.raw(key))
	}
	return all
}

// live requires that the keys expire after about so long, or never.
func (l *limiter) live(want time.Duration) {
	l.t.Helper()
	for _, key := range l.keys() {
		require.InDelta(l.t, want.Milliseconds(), l.do("PTTL", key), max(0, float64(want.Milliseconds()))/50, key)
	}
}

const never = -time.Millisecond // PTTL of a key that does not expire

func (l *limiter) leftKey() string   { return "{" + l.name + "}:value" }
func (l *limiter) grantsKey() string { return "{" + l.name + "}:permits" }

func (l *limiter) do(words ...any) any {
	l.t.Helper()
	v, err := l.rdb.Do(l.t.Context(), words...).Result()
	if err != redis.Nil {
		require.NoError(l.t, err, words)
	}
	return v
}

// serverTime is in ms, as a well-set peer would have it. Server and test share
// the clock of a bubble.
func (l *limiter) serverTime() int64 { return time.Now().UnixMilli() }

func keysLeft(t testing.TB, rdb redis.UniversalClient, name string) []string {
	t.Helper()
	var left []string
	for _, key := range (&limiter{name: name}).keys() {
		n, err := rdb.Exists(context.WithoutCancel(t.Context()), key).Result()
		require.NoError(t, err)
		if n > 0 {
			left = append(left, key)
		}
	}
	return left
}

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

func replaced(eval []any, old, text string) []any {
	eval = slices.Clone(eval)
	eval[1] = strings.Replace(eval[1].(string), old, text, 1)
	return eval
}

type unknownScript struct{}

var _ redis.Error = unknownScript{}

func (unknownScript) Error() string { return "NOSCRIPT this server is asked by EVAL" }
func (unknownScript) RedisError()   {}
