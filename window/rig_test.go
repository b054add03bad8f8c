package window_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4)
	redistest.Main(m)
}

// each runs f on miniredis and on a real server.
func each(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Parallel()
	redistest.OnEach(t, f)
}

// timed runs f on miniredis, where time passes as f sleeps.
func timed(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) { f(t, rdb) })
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

func (l *limiter) take(requests ...engine.Request) []engine.Answer {
	l.t.Helper()
	answers, _, err := l.Take(l.t.Context(), requests)
	require.NoError(l.t, err)
	require.Len(l.t, answers, len(requests))
	return answers
}

func (l *limiter) ask(n int) engine.Answer {
	l.t.Helper()
	return l.take(engine.Request{N: n})[0]
}

func (l *limiter) allowed(n int) bool {
	l.t.Helper()
	a := l.ask(n)
	require.NoError(l.t, a.Err)
	return a.Verdict == engine.Granted
}

// fill takes so many grants of one permit.
func (l *limiter) fill(grants int) {
	l.t.Helper()
	for grants > 0 {
		answers := l.take(slices.Repeat([]engine.Request{{N: 1}}, min(grants, engine.MostRequests))...)
		for _, a := range answers {
			require.Equal(l.t, engine.Granted, a.Verdict)
		}
		grants -= len(answers)
	}
}

func (l *limiter) giveBack(turn engine.Turn) {
	l.t.Helper()
	require.NoError(l.t, l.GiveBack(l.t.Context(), []engine.Return{{Turn: turn, N: turn.N}}))
}

func (l *limiter) available() int {
	l.t.Helper()
	n, err := l.AvailablePermits(l.t.Context())
	require.NoError(l.t, err)
	return n
}

func (l *limiter) status() engine.Status {
	l.t.Helper()
	s, err := l.Status(l.t.Context())
	require.NoError(l.t, err)
	return s
}

// update changes the rate.
func (l *limiter) update(rate window.Rate, keepState bool) {
	l.t.Helper()
	done, err := l.UpdateRate(l.t.Context(), rate, keepState)
	require.NoError(l.t, err)
	require.True(l.t, done)
}

func (l *limiter) keys() []string { return []string{l.name, l.leftKey(), l.grantsKey()} }

func (l *limiter) leftKey() string   { return "{" + l.name + "}:value" }
func (l *limiter) grantsKey() string { return "{" + l.name + "}:permits" }

// there are the keys that exist.
func (l *limiter) there() []string {
	return slices.DeleteFunc(l.keys(), func(key string) bool { return l.do("EXISTS", key) == int64(0) })
}

// state is what the keys hold.
func (l *limiter) state() []any {
	l.t.Helper()
	return []any{l.do("HGETALL", l.name), l.do("GET", l.leftKey()), l.do("ZRANGE", l.grantsKey(), 0, -1, "WITHSCORES")}
}

const never = -time.Millisecond // PTTL of a key that does not expire

// live requires that the keys expire after about so long, or never.
func (l *limiter) live(want time.Duration) {
	l.t.Helper()
	for _, key := range l.keys() {
		require.InDelta(l.t, want.Milliseconds(), l.do("PTTL", key), max(0, float64(want.Milliseconds()))/50, key)
	}
}

func (l *limiter) do(words ...any) any {
	l.t.Helper()
	v, err := l.rdb.Do(l.t.Context(), words...).Result()
	if err != redis.Nil {
		require.NoError(l.t, err, words)
	}
	return v
}

// now is in ms, as a well-set peer would have it.
func (l *limiter) now() int64 {
	l.t.Helper()
	now, err := l.rdb.Time(l.t.Context()).Result()
	require.NoError(l.t, err)
	return now.UnixMilli()
}
