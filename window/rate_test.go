package window_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

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
		for _, c := range []struct{ from, used, to, left int }{
			{10, 3, 20, 17},
			{10, 3, 5, 2},
			{10, 8, 5, 0},
		} {
			l := newLimiter(t, rdb, c.from, time.Minute)
			l.fill(c.used, 1)
			l.update(c.to, time.Minute)
			require.Equal(t, c.left, l.available(), c)
			require.Equal(t, strconv.Itoa(c.to-c.used), l.do("GET", l.leftKey()), "a peer finds the debt")
			done, err := l.UpdateRate(t.Context(), window.Rate{Permits: c.to, Per: time.Minute}, false)
			require.NoError(t, err)
			require.True(t, done)
			require.Equal(t, c.to, l.available(), "nothing kept")
		}
		for _, mode := range []window.Mode{window.ModeOverall, window.ModePerClient} {
			l := newLimiter(t, rdb, 1, time.Second)
			for _, permits := range []int{10, 20} {
				rate := window.Rate{Mode: mode, Permits: permits, Per: 10 * time.Second}
				require.NoError(t, l.SetRate(t.Context(), rate))
				require.True(t, l.allowed(1))
				require.Equal(t, permits-1, l.available())
			}
		}
		l := newLimiter(t, rdb, 10, time.Minute)
		require.True(t, l.allowed(4))
		time.Sleep(2 * time.Second)
		require.True(t, l.allowed(3))
		l.update(10, time.Second)
		require.Equal(t, 7, l.available(), "what is older than a shorter interval is forgotten")
		require.EqualValues(t, 1, l.do("ZCARD", l.grantsKey()))
		perClient := window.Rate{Mode: window.ModePerClient, Permits: 10, Per: time.Minute}
		_, err := l.UpdateRate(t.Context(), perClient, true)
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

func TestTrySetRateWritesOnce(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1, time.Second)
		first := window.Rate{Permits: 7, Per: 3 * time.Second, KeepAlive: 9 * time.Second}
		done, err := l.TrySetRate(t.Context(), first)
		require.NoError(t, err)
		require.True(t, done)
		require.Greater(t, l.do("PTTL", l.name), int64(0))

		done, err = l.TrySetRate(t.Context(), window.Rate{Permits: 8, Per: 3 * time.Second})
		require.NoError(t, err)
		require.False(t, done)

		got, err := l.Config(t.Context())
		require.NoError(t, err)
		require.Equal(t, first, got)
		require.True(t, l.allowed(7), "the rate that is there wins over the engine's")

		done, err = l.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, done)
		require.Empty(t, keysLeft(t, rdb, l.name))
	})
}
