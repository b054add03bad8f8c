package window_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// More have lapsed than are added up.
func TestTheReleaseOfManyLapsedGrants(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rdb.AddHook(editedScripts(countingFew))
		l := newLimiter(t, rdb, 10, 10*time.Second)
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
		require.NoError(t, l.Release(t.Context(), 10))
		require.Equal(t, 10, l.available())
		require.ErrorIs(t, l.Release(t.Context(), -1), window.ErrInvalidArgument)

		l = newLimiter(t, rdb, 300, time.Hour)
		l.fill(300, 1)
		require.NoError(t, l.Release(t.Context(), math.MaxInt), "as many as an int holds")
		require.Equal(t, 300, l.available())
	})
}

// A reader takes several runs here, and others write in between.
func TestReadersAreExactBesideWriters(t *testing.T) {
	writes := map[string]func(l *limiter){
		"nobody":                func(*limiter) {},
		"a question":            func(l *limiter) { require.True(l.t, l.allowed(3)) },
		"a release":             func(l *limiter) { require.NoError(l.t, l.Release(l.t.Context(), 13)) },
		"Redisson":              func(l *limiter) { redisson{l}.mustAcquire(4, l.serverTime()) },
		"a release by Redisson": func(l *limiter) { redisson{l}.release(5) },
		"a release of a part":   func(l *limiter) { require.NoError(l.t, l.Release(l.t.Context(), 1)) },
		"as many as had lapsed": func(l *limiter) {
			l.fill(11, 1)
			time.Sleep(4 * time.Second) // by now as much is left as before, and others have lapsed
		},
		"a Reset": func(l *limiter) { require.NoError(l.t, l.Reset(l.t.Context())) },
		"time": func(l *limiter) {
			time.Sleep(4 * time.Second) // a run may take five
		},
	}
	for who, write := range writes {
		t.Run(who, func(t *testing.T) {
			each(t, func(t *testing.T, rdb redis.UniversalClient) {
				rdb.AddHook(editedScripts(countingFew))
				l := newLimiter(t, rdb, 22, 8*time.Second)
				l.fillInTwo()
				runs := 0
				rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
					err := next(ctx, cmd)
					if cmd.Name() == "eval" || cmd.Name() == "evalsha" {
						if runs++; runs == 2 {
							write(l)
						}
					}
					return err
				}))
				got := l.available()
				require.GreaterOrEqual(t, runs, 3)

				all := redisson{l}.held("+inf")
				lapsed := redisson{l}.held(l.serverTime() - 8_000)
				require.Equal(t, 22-(all-lapsed), got)
			})
		})
	}
}

// fillInTwo takes 21 of 22 permits: eleven that have lapsed when it returns, the
// oldest two in one grant, and ten.
func (l *limiter) fillInTwo() {
	l.t.Helper()
	l.fill(1, 2)
	time.Sleep(time.Millisecond)
	l.fill(9, 1)
	time.Sleep(4 * time.Second)
	l.fill(5, 2)
	time.Sleep(4*time.Second + time.Millisecond)
}

func TestANumberThatIsTooLargeLeavesWhatTheGrantsAllow(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rdb.AddHook(editedScripts(countingFew))
		l := newLimiter(t, rdb, 22, 8*time.Second)
		l.fillInTwo()
		l.do("SET", l.leftKey(), 1000)
		require.Equal(t, 22-5, l.available(), "five grants hold a permit each at least")
	})
}

func TestAWaitEndsWithTheLastGrantThatHasToLeave(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rdb.AddHook(editedScripts(countingFew))
		l := newLimiter(t, rdb, 5, 8*time.Second)
		for range 5 {
			require.True(t, l.allowed(1))
			time.Sleep(time.Second)
		}
		require.Equal(t, 5*time.Second, l.ask(3).Wait, "more grants are held than are added up")
		time.Sleep(3 * time.Second)
		l.do("HSET", l.name, "rate", 3)
		require.Equal(t, 2*time.Second, l.status().Delay, "one has lapsed, and is still there; two of four have to leave")
	})
}
