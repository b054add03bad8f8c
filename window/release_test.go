package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/window"
)

func TestReleaseFreesWhatWasTakenAndNoMore(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, 60*time.Second)
		require.NoError(t, l.Release(t.Context(), 0), "without a rate")
		require.ErrorIs(t, l.Release(t.Context(), 1), window.ErrNotInitialized)
		require.True(t, l.allowed(3))
		require.NoError(t, l.Release(t.Context(), 0))
		require.Equal(t, 7, l.available())
		require.NoError(t, l.Release(t.Context(), 2))
		require.Equal(t, 9, l.available(), "a part of a grant")
		require.NoError(t, l.Release(t.Context(), 1))
		require.Equal(t, 10, l.available())
		require.NoError(t, l.Release(t.Context(), 10))
		require.Equal(t, 10, l.available())
		require.ErrorIs(t, l.Release(t.Context(), -1), window.ErrInvalidArgument)
	})
}

func TestAReleaseOfAsManyAsAnIntHolds(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, n := range []int{math.MaxInt / 2, math.MaxInt - 1000, math.MaxInt} {
			l := newLimiter(t, rdb, 300, time.Hour)
			l.fill(300, 1)
			require.NoError(t, l.Release(t.Context(), n), n)
			require.Equal(t, 300, l.available(), n)
		}
	})
}

func TestAReleaseGoesOnBehindGrantsOfNothing(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 3, time.Hour)
		require.True(t, l.allowed(1))
		for range 2 {
			time.Sleep(2 * time.Millisecond)
			l.do("ZADD", l.grantsKey(), l.serverTime(), redisson{l}.member(16, 0))
		}
		time.Sleep(2 * time.Millisecond)
		require.True(t, l.allowed(2))
		require.NoError(t, l.Release(t.Context(), 2))
		require.True(t, l.allowed(2))
		require.False(t, l.allowed(1))
	})
}
