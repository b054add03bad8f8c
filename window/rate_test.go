package window_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
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
		var l *limiter
		for _, c := range []struct{ used, rate, available int }{{3, 20, 17}, {3, 5, 2}, {8, 5, 0}} {
			l = newLimiter(t, rdb, 10, time.Minute)
			l.fill(c.used)
			l.update(c.rate, time.Minute)
			require.Equal(t, c.available, l.available())
		}
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

func TestARequestAboveTheRateWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, time.Second, window.KeepAlive(5*time.Hour))
		require.ErrorIs(t, l.ask(6).Err, engine.ErrExceedsQuota)
		require.Empty(t, keysLeft(t, rdb, l.name), "not even the rate")

		require.True(t, l.allowed(2))
		time.Sleep(2 * time.Second)
		for _, key := range l.keys() {
			l.do("PEXPIRE", key, time.Hour.Milliseconds())
		}
		before := l.state()
		require.ErrorIs(t, l.ask(6).Err, engine.ErrExceedsQuota)
		require.Equal(t, before, l.state())
		l.live(time.Hour)

		answers, _, err := l.Take(t.Context(), []engine.Request{{N: 6}, {N: 4}, {N: 4}})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, engine.ErrExceedsQuota)
		require.Equal(t, engine.Granted, answers[1].Verdict, "another request of the batch fits")
		require.Equal(t, engine.Refused, answers[2].Verdict)
		l.live(5 * time.Hour)
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

		for _, other := range []string{"colour", "keepAliveTime"} {
			l := newLimiter(t, rdb, 1, time.Second)
			l.do("HSET", l.name, other, "red")
			_, err := l.TrySetRate(t.Context(), rate)
			require.ErrorIs(t, err, engine.ErrState)
			require.EqualValues(t, 1, l.do("HLEN", l.name))
		}
	})
}

func TestReleaseFreesWhatWasTakenAndNoMore(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, 60*time.Second)
		require.NoError(t, l.Release(t.Context(), 0), "without a rate")
		require.ErrorIs(t, l.Release(t.Context(), 1), window.ErrNotInitialized)
		require.True(t, l.allowed(3))
		require.NoError(t, l.Release(t.Context(), 10))
		require.Equal(t, 10, l.available())
		require.ErrorIs(t, l.Release(t.Context(), -1), window.ErrInvalidArgument)

		l = newLimiter(t, rdb, 300, time.Hour)
		l.fill(300)
		require.NoError(t, l.Release(t.Context(), math.MaxInt), "as many as an int holds")
		require.Equal(t, 300, l.available())
	})
}

func TestAWaitEndsWithTheLastGrantThatHasToLeave(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, 8*time.Second)
		for range 5 {
			require.True(t, l.allowed(1))
			time.Sleep(time.Second)
		}
		require.Equal(t, 6*time.Second, l.ask(4).Wait)
		time.Sleep(3 * time.Second)
		l.do("HSET", l.name, "rate", 3)
		require.Equal(t, 2*time.Second, l.status().Delay, "one has lapsed; two of four have to leave")

		l = newLimiter(t, rdb, 1200, 8*time.Second)
		l.fill(1000)
		time.Sleep(time.Second)
		l.fill(200)
		require.Equal(t, 7*time.Second, l.ask(1100).Wait, "more than are added up")
	})
}
