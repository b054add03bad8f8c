package window_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// methods are those of an Admin that ask Redis.
func methods(a *window.Admin) map[string]func(ctx context.Context) error {
	rate := window.Rate{Permits: 5, Per: time.Minute}
	return map[string]func(ctx context.Context) error{
		"TrySetRate":       func(ctx context.Context) error { _, err := a.TrySetRate(ctx, rate); return err },
		"SetRate":          func(ctx context.Context) error { return a.SetRate(ctx, rate) },
		"UpdateRate":       func(ctx context.Context) error { _, err := a.UpdateRate(ctx, rate, true); return err },
		"Config":           func(ctx context.Context) error { _, err := a.Config(ctx); return err },
		"AvailablePermits": func(ctx context.Context) error { _, err := a.AvailablePermits(ctx); return err },
		"Release":          func(ctx context.Context) error { return a.Release(ctx, 1) },
		"Delete":           func(ctx context.Context) error { _, err := a.Delete(ctx); return err },
	}
}

func TestNoMethodOfAnAdminOutlastsItsCtx(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		redistest.Break(rdb).BlackHole()
		for name, call := range methods(open(t, rdb, redistest.Name(t))) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			err := call(ctx)
			assert.Equal(t, time.Second, time.Since(start), name)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.ErrorIs(t, err, engine.ErrOutcomeUnknown, name)

			err = call(context.Background())
			assert.Equal(t, 6*time.Second, time.Since(start), name)
			assert.ErrorIs(t, err, engine.ErrOutcomeUnknown, name)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", name)

			err = call(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.NotErrorIs(t, err, engine.ErrOutcomeUnknown, "%s: nothing was sent", name)
			assert.ErrorIs(t, call(nil), window.ErrInvalidArgument, name)
		}
	})
}

func TestAnErrorOfAnAdminSaysWhyAndNamesItsLimiterOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.Nowhere(t)
	a := open(t, rdb, "tax-office")
	opens := func(client redis.UniversalClient, opts ...window.Option) error {
		_, err := window.Open(client, "tax-office", opts...)
		return err
	}
	sets := func(rate window.Rate) error { return a.SetRate(t.Context(), rate) }
	namedOnce := func(err error) {
		require.ErrorContains(t, err, `fairlimit: "tax-office": `)
		for _, once := range []string{"fairlimit: ", `"tax-office"`} {
			require.Equal(t, 1, strings.Count(err.Error(), once), err)
		}
	}
	for _, c := range []struct {
		says string
		err  error
	}{
		{"no client", opens(nil)},
		{"no client", opens((*redis.Client)(nil))},
		{"nil option", opens(rdb, nil)},
		{"empty id", opens(rdb, window.PerClient(""))},
		{"not for Open", opens(rdb, window.KeepAlive(time.Second))},
		{"not for Open", opens(rdb, window.RetryTick(time.Second))},
		{"Permits is -1", sets(window.Rate{Permits: -1, Per: time.Second})},
		{"Per is -1s", sets(window.Rate{Permits: 1, Per: -time.Second})},
		{"Mode is 2", sets(window.Rate{Permits: 1, Per: time.Second, Mode: 2})},
		{"KeepAlive is 999ms", sets(window.Rate{Permits: 1, Per: time.Second, KeepAlive: 999 * time.Millisecond})},
		{"want at least 0", a.Release(t.Context(), -1)},
	} {
		require.ErrorIs(t, c.err, window.ErrInvalidArgument)
		require.ErrorContains(t, c.err, c.says)
		namedOnce(c.err)
	}
	for _, call := range methods(a) {
		namedOnce(call(t.Context()))
	}
	_, err := window.Open(rdb, "")
	require.ErrorIs(t, err, window.ErrInvalidArgument)
}

func TestTheKeysLiveAsLongAsTheRate(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, time.Second)
		require.True(t, l.allowed(1))
		l.live(never)
		l.do("PEXPIRE", l.name, time.Hour.Milliseconds())
		require.True(t, l.allowed(1), "copies the TTL")
		l.live(time.Hour)
		require.NoError(t, l.SetRate(t.Context(), window.Rate{Permits: 5, Per: time.Second}))
		require.True(t, l.allowed(1))
		l.live(time.Hour)

		l = newLimiter(t, rdb, 1, time.Minute, window.KeepAlive(5*time.Hour))
		for _, granted := range []bool{true, false} { // a refusal is a use
			for _, key := range l.keys() {
				l.do("PEXPIRE", key, time.Hour.Milliseconds())
			}
			require.Equal(t, granted, l.allowed(1))
			l.live(5 * time.Hour)
		}
		rate := window.Rate{Permits: 9, Per: time.Second}
		for _, off := range []func(){
			func() { require.NoError(t, l.SetRate(t.Context(), rate)) },
			func() { l.update(rate, false) },
			func() { l.update(rate, true) },
		} {
			require.NoError(t, l.SetRate(t.Context(), window.Rate{Permits: 9, Per: time.Second, KeepAlive: time.Hour}))
			require.True(t, l.allowed(1))
			l.live(time.Hour)
			off()
			require.True(t, l.allowed(1))
			l.live(never)
		}
	})
}

func TestAChangeOfRateForgetsTheGrantsUnlessItKeepsThem(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		var l *limiter
		for _, c := range []struct{ used, rate, available int }{{3, 20, 17}, {3, 5, 2}, {8, 5, 0}} {
			l = newLimiter(t, rdb, 10, time.Minute)
			l.fill(c.used)
			l.update(window.Rate{Permits: c.rate, Per: time.Minute}, true)
			require.Equal(t, c.available, l.available())
		}
		require.Equal(t, "-3", l.do("GET", l.leftKey()), "a peer finds the debt")
		l.update(window.Rate{Permits: 5, Per: time.Minute}, false)
		require.Equal(t, 5, l.available(), "nothing kept")
		for _, mode := range []window.Mode{window.ModeOverall, window.ModePerClient} {
			for _, permits := range []int{10, 20} {
				rate := window.Rate{Mode: mode, Permits: permits, Per: 10 * time.Second}
				require.NoError(t, l.SetRate(t.Context(), rate))
				require.True(t, l.allowed(1))
				require.Equal(t, permits-1, l.available())
			}
		}
		l = newLimiter(t, rdb, 10, time.Minute)
		require.True(t, l.allowed(4))
		time.Sleep(2 * time.Second)
		require.True(t, l.allowed(3))
		l.update(window.Rate{Permits: 10, Per: time.Second}, true)
		require.Equal(t, 7, l.available(), "what is older than a shorter interval is forgotten")
		require.EqualValues(t, 1, l.do("ZCARD", l.grantsKey()))
		l.update(window.Rate{Mode: window.ModePerClient, Permits: 10, Per: time.Minute}, true)
		require.Equal(t, 10, l.available(), "another mode keeps nothing")
		require.Equal(t, []string{l.name}, l.there())
	})
}

func TestWhereThereIsNoRate(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, time.Minute)
		for _, keep := range []bool{false, true} {
			done, err := l.UpdateRate(t.Context(), window.Rate{Permits: 5, Per: time.Second}, keep)
			require.NoError(t, err)
			require.False(t, done)
		}
		done, err := l.Delete(t.Context())
		require.NoError(t, err)
		require.False(t, done)
		_, available := l.AvailablePermits(t.Context())
		_, config := l.Config(t.Context())
		for _, err := range []error{available, config, l.Release(t.Context(), 1)} {
			require.ErrorIs(t, err, window.ErrNotInitialized)
		}
		require.NoError(t, l.Release(t.Context(), 0))
		require.Empty(t, l.there())
	})
}

func TestTrySetRateCompletesWhatIsThere(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rate := window.Rate{Permits: 7, Per: 3 * time.Second, KeepAlive: 9 * time.Hour}
		for _, c := range []struct {
			there []any
			want  string // rate, interval, type, keepAliveTime
			done  bool
			life  time.Duration // never, or about so long
		}{
			{nil, "[7 3000 0 32400000]", true, 9 * time.Hour},
			{[]any{"rate", "5", "interval", "2000"}, "[5 2000 0 32400000]", true, 9 * time.Hour},
			{[]any{"rate", "5", "interval", "2000", "type", "0"}, "[5 2000 0 32400000]", false, never},
			{[]any{"type", "1", "keepAliveTime", "0"}, "[7 3000 1 0]", false, never},
			{[]any{"keepAliveTime", "3600000"}, "[7 3000 0 3600000]", true, time.Hour},
		} {
			l := newLimiter(t, rdb, 1, time.Second)
			if c.there != nil {
				l.do(append([]any{"HSET", l.name}, c.there...)...)
			}
			for _, want := range []bool{c.done, false} { // once
				done, err := l.TrySetRate(t.Context(), rate)
				require.NoError(t, err)
				require.Equal(t, want, done, c.there)
				require.Equal(t, c.want, fmt.Sprint(l.do("HMGET", l.name, "rate", "interval", "type", "keepAliveTime")))
				require.InDelta(t, c.life.Milliseconds(), l.do("PTTL", l.name), max(0, float64(c.life.Milliseconds())/50))
			}
		}
		for _, other := range []string{"colour", "keepAliveTime"} {
			l := newLimiter(t, rdb, 1, time.Second)
			l.do("HSET", l.name, other, "red")
			_, err := l.TrySetRate(t.Context(), rate)
			require.ErrorIs(t, err, engine.ErrState)
			require.EqualValues(t, 1, l.do("HLEN", l.name))
		}
	})
}

// It takes permits out of the oldest grants, which leave the window when they would
// have left it.
func TestReleaseFreesWhatWasTakenAndNoMore(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, time.Minute)
		require.True(t, l.allowed(3))
		time.Sleep(time.Second)
		require.True(t, l.allowed(4))
		time.Sleep(time.Second)
		require.NoError(t, l.Release(t.Context(), 5))
		require.Equal(t, "8", l.do("GET", l.leftKey()))
		require.Equal(t, 8, l.available())
		require.Equal(t, 59*time.Second, l.ask(9).Wait)
		require.NoError(t, l.Release(t.Context(), math.MaxInt), "as many as an int holds")
		require.Equal(t, 10, l.available())
		require.ErrorIs(t, l.Release(t.Context(), -1), window.ErrInvalidArgument)
	})
}
