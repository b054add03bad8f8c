package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

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

		l = newLimiter(t, rdb, 1, time.Second, window.KeepAlive(5*time.Hour))
		for _, granted := range []bool{true, false} { // a refusal is a use
			for _, key := range l.keys() {
				l.do("PEXPIRE", key, time.Hour.Milliseconds())
			}
			require.Equal(t, granted, l.allowed(1))
			l.live(5 * time.Hour)
		}
		for _, off := range []func(window.Rate) error{
			func(r window.Rate) error { return l.SetRate(t.Context(), r) },
			func(r window.Rate) error { _, err := l.UpdateRate(t.Context(), r, false); return err },
			func(r window.Rate) error { _, err := l.UpdateRate(t.Context(), r, true); return err },
		} {
			require.NoError(t, l.SetRate(t.Context(), window.Rate{Permits: 9, Per: time.Second, KeepAlive: time.Hour}))
			require.True(t, l.allowed(1))
			l.live(time.Hour)
			require.NoError(t, off(window.Rate{Permits: 9, Per: time.Second}))
			require.True(t, l.allowed(1))
			l.live(never)
		}
	})
}

func TestAChangeOfRateForgetsTheGrantsUnlessItKeepsThem(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, time.Minute)
		l.fill(8, 1)
		l.update(5, time.Minute)
		require.Equal(t, "-3", l.do("GET", l.leftKey()), "a peer finds the debt")
		done, err := l.UpdateRate(t.Context(), window.Rate{Permits: 5, Per: time.Minute}, false)
		require.NoError(t, err)
		require.True(t, done)
		require.Equal(t, 5, l.available(), "nothing kept")
		for _, mode := range []window.Mode{window.ModeOverall, window.ModePerClient} {
			l := newLimiter(t, rdb, 1, time.Second)
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
		l.update(10, time.Second)
		require.Equal(t, 7, l.available(), "what is older than a shorter interval is forgotten")
		require.EqualValues(t, 1, l.do("ZCARD", l.grantsKey()))
		perClient := window.Rate{Mode: window.ModePerClient, Permits: 10, Per: time.Minute}
		_, err = l.UpdateRate(t.Context(), perClient, true)
		require.NoError(t, err)
		require.Equal(t, 10, l.available(), "another mode keeps nothing")
		require.Equal(t, []string{l.name}, keysLeft(t, rdb, l.name))
	})
}

func TestWhereThereIsNoRate(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, 60*time.Second)
		for _, keep := range []bool{false, true} {
			done, err := l.UpdateRate(t.Context(), window.Rate{Permits: 5, Per: time.Second}, keep)
			require.NoError(t, err)
			require.False(t, done)
		}
		require.Empty(t, keysLeft(t, rdb, l.name))

		done, err := l.Delete(t.Context())
		require.NoError(t, err)
		require.False(t, done)

		_, err = l.AvailablePermits(t.Context())
		require.ErrorIs(t, err, window.ErrNotInitialized)
		_, err = l.Config(t.Context())
		require.ErrorIs(t, err, window.ErrNotInitialized)
	})
}

// A rate that Redis lets expire is in its last millisecond when PTTL is 0. Its
// permits must not stay for ever then, and not be gone before it is.
func TestNothingIsKeptOfARateInItsLastMillisecond(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var last int // questions in that millisecond
		for pause := 3 * time.Millisecond; pause < 4100*time.Microsecond; pause += 25 * time.Microsecond {
			l := newLimiter(t, rdb, 5, 5*time.Millisecond)
			redisson{l}.setRate(5, 5*time.Millisecond, 0)
			redisson{l}.mustAcquire(1, l.serverTime())
			l.do("PEXPIRE", l.name, 4)
			time.Sleep(pause)
			left := l.do("PTTL", l.name).(int64)
			if left < 0 { // its quota becomes the rate
				continue
			} else if left == 0 {
				last++
			}
			require.True(t, l.allowed(1))
			require.NoError(t, l.Release(t.Context(), 1))
			for _, key := range []string{l.leftKey(), l.grantsKey()} {
				require.GreaterOrEqual(t, l.do("PTTL", key), int64(0), "PTTL of the rate was %d", left)
			}
		}
		require.Positive(t, last)
	})
}

func TestARequestAboveTheRateWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, time.Second, window.KeepAlive(5*time.Hour))
		for range 2 {
			require.ErrorIs(t, l.ask(6).Err, engine.ErrExceedsQuota)
			require.Empty(t, keysLeft(t, rdb, l.name), "not even the rate")
		}

		require.True(t, l.allowed(2))
		time.Sleep(2 * time.Second)
		for _, key := range l.keys() {
			l.do("PEXPIRE", key, time.Hour.Milliseconds())
		}
		before := l.state()
		answers, err := l.Take(t.Context(), []engine.Request{{N: 6}, {N: 1000}})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, engine.ErrExceedsQuota)
		require.ErrorIs(t, answers[1].Err, engine.ErrExceedsQuota)
		require.Equal(t, before, l.state())
		for _, key := range l.keys() {
			require.LessOrEqual(t, l.do("PTTL", key), time.Hour.Milliseconds(), "no use of %s", key)
		}

		answers, err = l.Take(t.Context(), []engine.Request{{N: 6}, {N: 4}, {N: 4}})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, engine.ErrExceedsQuota)
		require.True(t, answers[1].Granted, "another request of the batch fits")
		require.False(t, answers[2].Granted)
		require.Greater(t, l.do("PTTL", l.leftKey()), time.Hour.Milliseconds(), "which is a use")
	})
}

func TestTrySetRateCompletesWhatIsThere(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rate := window.Rate{Permits: 7, Per: 3 * time.Second, KeepAlive: 9 * time.Hour}
		fields := func(l *limiter) string {
			return fmt.Sprint(l.do("HMGET", l.name, "rate", "interval", "type", "keepAliveTime"))
		}
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
			done, err := l.TrySetRate(t.Context(), rate)
			require.NoError(t, err)
			require.Equal(t, c.done, done, c.there)
			require.Equal(t, c.want, fields(l))
			require.InDelta(t, c.life.Milliseconds(), l.do("PTTL", l.name), max(0, float64(c.life.Milliseconds())/50))
			require.True(t, l.allowed(1))
			done, err = l.TrySetRate(t.Context(), window.Rate{Permits: 8, Per: 3 * time.Second})
			require.NoError(t, err)
			require.False(t, done, "once")
			require.Equal(t, c.want, fields(l))
		}

		l := newLimiter(t, rdb, 1, time.Second)
		l.do("HSET", l.name, "colour", "red")
		_, err := l.TrySetRate(t.Context(), rate)
		require.ErrorIs(t, err, engine.ErrState, "that is something else")
		l = newLimiter(t, rdb, 1, time.Second)
		l.do("HSET", l.name, "keepAliveTime", "long")
		_, err = l.TrySetRate(t.Context(), rate)
		require.ErrorIs(t, err, engine.ErrState)
		require.Equal(t, "[<nil> <nil> <nil> long]", fields(l))
	})
}
