package window_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

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
		for _, c := range []struct {
			there []any
			want  map[string]string
			done  bool
			life  time.Duration
		}{
			{
				[]any{"rate", "5", "interval", "2000"},
				map[string]string{"rate": "5", "interval": "2000", "type": "0", "keepAliveTime": "32400000"},
				true, 9 * time.Hour,
			},
			{
				[]any{"rate", "5", "interval", "2000", "type", "0"},
				map[string]string{"rate": "5", "interval": "2000", "type": "0", "keepAliveTime": "32400000"},
				false, 0,
			},
			{
				[]any{"type", "1", "keepAliveTime", "0"},
				map[string]string{"rate": "7", "interval": "3000", "type": "1", "keepAliveTime": "0"},
				false, 0,
			},
			{
				[]any{"keepAliveTime", "3600000"},
				map[string]string{"rate": "7", "interval": "3000", "type": "0", "keepAliveTime": "3600000"},
				true, time.Hour,
			},
		} {
			l := newLimiter(t, rdb, 1, time.Second)
			l.do(append([]any{"HSET", l.name}, c.there...)...)
			done, err := l.TrySetRate(t.Context(), rate)
			require.NoError(t, err)
			require.Equal(t, c.done, done, c.there)
			fields, err := rdb.HGetAll(t.Context(), l.name).Result()
			require.NoError(t, err)
			require.Equal(t, c.want, fields)
			if c.life > 0 {
				require.InDelta(t, c.life.Milliseconds(), l.do("PTTL", l.name), 60_000)
			} else {
				require.EqualValues(t, -1, l.do("PTTL", l.name))
			}
			require.True(t, l.allowed(1))
		}

		l := newLimiter(t, rdb, 1, time.Second)
		l.do("HSET", l.name, "colour", "red")
		_, err := l.TrySetRate(t.Context(), rate)
		require.ErrorIs(t, err, engine.ErrState, "that is something else")
		l = newLimiter(t, rdb, 1, time.Second)
		l.do("HSET", l.name, "keepAliveTime", "long")
		_, err = l.TrySetRate(t.Context(), rate)
		require.ErrorIs(t, err, engine.ErrState)
		require.Equal(t, map[string]string{"keepAliveTime": "long"}, rdb.HGetAll(t.Context(), l.name).Val())
	})
}
