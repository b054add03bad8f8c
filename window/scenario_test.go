package window_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// The scenarios of Redisson's own tests of RRateLimiter.

func TestEveryUseKeepsTheKeysAlive(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := newLimiter(t, rdb, 10, 2*time.Second, window.KeepAlive(2*time.Second))
		for range 5 {
			require.True(t, l.allowed(1))
			time.Sleep(time.Second)
			require.Len(t, keysLeft(t, rdb, l.name), 3)
		}
		for l.allowed(1) {
		}
		time.Sleep(time.Second)
		require.Len(t, keysLeft(t, rdb, l.name), 3, "a refusal is a use")
		time.Sleep(1100 * time.Millisecond)
		require.Empty(t, keysLeft(t, rdb, l.name))
	})
}

func TestTheKeysLiveAsLongAsTheRate(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		live := func(l *limiter, want time.Duration) {
			for _, key := range []string{l.name, l.leftKey(), l.grantsKey()} {
				got := time.Duration(l.do("PTTL", key).(int64)) * time.Millisecond
				require.InDelta(t, want, got, float64(time.Minute), key)
			}
		}
		l := newLimiter(t, rdb, 10, time.Second)
		require.True(t, l.allowed(1))
		l.do("PEXPIRE", l.name, time.Hour.Milliseconds())
		require.True(t, l.allowed(1), "copies the TTL")
		live(l, time.Hour)

		l = newLimiter(t, rdb, 1, time.Second, window.KeepAlive(5*time.Hour))
		for _, granted := range []bool{true, false} {
			for _, key := range []string{l.name, l.leftKey(), l.grantsKey()} {
				l.do("PEXPIRE", key, time.Hour.Milliseconds())
			}
			require.Equal(t, granted, l.allowed(1))
			live(l, 5*time.Hour)
		}
	})
}

func TestANewRateForgetsTheGrants(t *testing.T) {
	for _, mode := range []window.Mode{window.ModeOverall, window.ModePerClient} {
		t.Run([]string{"overall", "per client"}[mode], func(t *testing.T) {
			each(t, func(t *testing.T, rdb redis.UniversalClient) {
				l := newLimiter(t, rdb, 1, time.Second)
				for _, permits := range []int{10, 20} {
					rate := window.Rate{Mode: mode, Permits: permits, Per: 10 * time.Second}
					require.NoError(t, l.SetRate(t.Context(), rate))
					require.True(t, l.allowed(1))
					require.Equal(t, permits-1, l.available())
				}
			})
		})
	}
}

func TestUpdateKeepingState(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, c := range []struct{ from, used, to, left int }{
			{10, 3, 20, 17},
			{10, 3, 5, 2},
			{10, 8, 5, 0},
		} {
			l := newLimiter(t, rdb, c.from, 60*time.Second)
			for range c.used {
				require.True(t, l.allowed(1))
			}
			done, err := l.UpdateRate(t.Context(), window.Rate{Permits: c.to, Per: 60 * time.Second}, true)
			require.NoError(t, err)
			require.True(t, done)
			require.Equal(t, c.left, l.available(), c)
			require.Equal(t, strconv.Itoa(c.to-c.used), l.do("GET", l.leftKey()), "a peer finds the debt")

			done, err = l.UpdateRate(t.Context(), window.Rate{Permits: c.to, Per: 60 * time.Second}, false)
			require.NoError(t, err)
			require.True(t, done)
			require.Equal(t, c.to, l.available(), "nothing kept")
		}
	})
}

func TestUpdateToAnotherModeForgetsTheGrants(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, 60*time.Second)
		require.True(t, l.allowed(8))
		perClient := window.Rate{Mode: window.ModePerClient, Permits: 10, Per: 60 * time.Second}
		_, err := l.UpdateRate(t.Context(), perClient, true)
		require.NoError(t, err)
		require.Equal(t, 10, l.available())
		require.Equal(t, []string{l.name}, keysLeft(t, rdb, l.name))
	})
}

func TestUpdateToAShorterIntervalForgetsWhatIsOlder(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, 60*time.Second)
		require.True(t, l.allowed(4))
		time.Sleep(2 * time.Second)
		require.True(t, l.allowed(3))
		_, err := l.UpdateRate(t.Context(), window.Rate{Permits: 10, Per: time.Second}, true)
		require.NoError(t, err)
		require.Equal(t, 7, l.available())
		require.EqualValues(t, 1, l.do("ZCARD", l.grantsKey()))
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
