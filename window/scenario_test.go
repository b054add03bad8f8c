package window_test

import (
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// The scenarios of Redisson's own tests of RRateLimiter.

func TestAWindowFullIsGrantedAndThenNoMoreUntilItHasPassed(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, time.Second)
		for range 2 {
			for i := range 5 {
				require.True(t, l.allowed(1), i)
			}
			for i := range 5 {
				require.False(t, l.allowed(1), i)
			}
			time.Sleep(time.Second + time.Millisecond)
		}
	})
}

func TestAPermitIsFreeOnceItsOwnGrantHasLeftTheWindow(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 2, 5*time.Second)
		require.True(t, l.allowed(1))
		time.Sleep(4 * time.Second)
		require.True(t, l.allowed(1))
		time.Sleep(time.Second + time.Second/20)
		require.True(t, l.allowed(1))
		require.False(t, l.allowed(1))
	})
}

func TestTenASecondForEightCallers(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, time.Second)
		sent, received := l.run(8, redistest.Long(100, 500))
		strict(t, sent, received, 10, time.Second)
	})
}

func TestNoSecondHasMoreThanEighteen(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 18, time.Second)
		sent, received := l.run(8, redistest.Long(120, 1000))
		strict(t, sent, received, 18, time.Second)
	})
}

func TestABigWindowIsFilledAndNeverOverfilled(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		permits, callers := redistest.Long(800, 10_000), redistest.Long(20, 200)
		const together = 64
		l := newLimiter(t, rdb, permits, 10*time.Second)
		requests := make([]engine.Request, together)
		for i := range requests {
			requests[i] = engine.Request{N: 1}
		}
		stop := make(chan struct{})
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for {
					answers, err := l.Take(t.Context(), requests)
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case <-stop:
						return
					case <-time.After(answers[len(answers)-1].Wait + time.Microsecond):
					}
				}
			})
		}
		full := 0
		for range 20 {
			time.Sleep(time.Second)
			from := l.serverTime() - (10 * time.Second).Milliseconds()
			if n := len(l.do("ZRANGEBYSCORE", l.grantsKey(), from+1, "+inf").([]any)); n == permits {
				full++
			} else {
				require.Less(t, n, permits)
			}
		}
		close(stop)
		group.Wait()
		require.GreaterOrEqual(t, full, 16)
	})
}

func TestEachClientHasTheRateForItself(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		a := newLimiter(t, rdb, 1, time.Second, window.PerClient("a"))
		b := namedLimiter(t, rdb, a.name, 1, time.Second, window.PerClient("b"))
		require.ErrorIs(t, a.ask(20).Err, engine.ErrExceedsQuota)
		require.True(t, a.allowed(1))
		require.False(t, a.allowed(1))
		require.True(t, b.allowed(1))
		require.False(t, b.allowed(1))
	})
}

func TestNothingOutlivesAnExpiryOfTheRate(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := newLimiter(t, rdb, 10, 10*time.Second)
		require.True(t, l.allowed(1))
		l.do("PEXPIRE", l.name, 1000)
		require.True(t, l.allowed(1), "copies the TTL")
		time.Sleep(1100 * time.Millisecond)
		require.Empty(t, keysLeft(t, rdb, l.name))
	})
}

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

func TestReleaseFreesWhatWasTakenAndNoMore(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, 60*time.Second)
		require.ErrorIs(t, l.Release(t.Context(), 1), window.ErrNotInitialized)
		require.True(t, l.allowed(3))
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

func TestReleaseOfManyGrants(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1200, 60*time.Second)
		l.fill(1200, 1)
		require.Equal(t, 0, l.available())
		require.NoError(t, l.Release(t.Context(), 700))
		require.Equal(t, 700, l.available())
		require.NoError(t, l.Release(t.Context(), 1_000_000))
		require.Equal(t, 1200, l.available())
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
