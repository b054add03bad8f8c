package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/window"
)

func TestTheReleaseOfManyLapsedGrants(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rdb.AddHook(editedScripts(countingFew))
		l := newLimiter(t, rdb, 40, 10*time.Second)
		l.fill(25, 1)
		time.Sleep(5 * time.Second)
		l.fill(15, 1)
		time.Sleep(5*time.Second + time.Millisecond)
		require.NoError(t, l.Release(t.Context(), 26))
		require.Equal(t, 26, l.available(), "25 have lapsed, one of the others was released")
		require.True(t, l.allowed(26))
		require.False(t, l.allowed(1))

		l = newLimiter(t, rdb, 10, 10*time.Second)
		l.fill(8, 1)
		time.Sleep(5 * time.Second)
		l.fill(2, 1)
		time.Sleep(5*time.Second + time.Millisecond)
		require.NoError(t, l.Release(t.Context(), 8))
		require.Equal(t, 8, redisson{l}.available(l.serverTime()), "all that have lapsed were released")

		l = newLimiter(t, rdb, 10, 10*time.Second)
		l.fill(8, 1)
		time.Sleep(10*time.Second + time.Millisecond)
		l.do("DEL", l.leftKey())
		require.NoError(t, l.Release(t.Context(), 1))
		require.Nil(t, l.do("GET", l.leftKey()), "what was freed is not all that is left")
	})
}

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
