package window_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/window"
)

// What Redisson's RRateLimiter does and this engine does not: each test fails
// if the defect is there.

func TestAPeersFastClockMakesNobodyWaitLonger(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1, time.Second)
		redisson{l}.setRate(1, time.Second, 0)
		redisson{l}.mustAcquire(1, l.serverTime()+60_000)

		require.LessOrEqual(t, l.status().Delay, time.Second+time.Millisecond)
		a := l.ask(1)
		require.Equal(t, engine.Refused, a.Verdict)
		require.LessOrEqual(t, a.Wait, time.Second+time.Millisecond)
		time.Sleep(a.Wait)
		require.True(t, l.allowed(1))
	})
}

func TestReadersChangeNothing(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, time.Second, window.KeepAlive(60*time.Second))
		require.True(t, l.allowed(2))
		time.Sleep(time.Second + 2*time.Millisecond)
		before := l.state()
		l.do("PEXPIRE", l.leftKey(), 30_000)
		require.Equal(t, 5, l.available())
		require.Equal(t, engine.Status{Available: 5}, l.status())
		_, err := l.Config(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, l.state())
		ttl := l.do("PTTL", l.leftKey())
		require.Greater(t, ttl, int64(0))
		require.LessOrEqual(t, ttl, int64(30_000), "no reader keeps alive")
		for _, key := range []string{l.leftKey(), l.grantsKey()} {
			l.do("DEL", key)
			require.Equal(t, 5, l.available(), "without %s", key)
		}
	})
}

func TestEitherHalfOfTheStateMayBeLost(t *testing.T) {
	for _, manyPermits := range []bool{false, true} {
		t.Run(map[bool]string{false: "few grants", true: "more than are added up"}[manyPermits], func(t *testing.T) {
			each(t, func(t *testing.T, rdb redis.UniversalClient) {
				permits, left := 10, 4
				if manyPermits {
					permits, left = 2000, 500
				}
				l := newLimiter(t, rdb, permits, 60*time.Second)
				l.fill(permits - left)

				l.do("DEL", l.leftKey())
				require.Equal(t, left, l.available(), "the number was lost")
				require.True(t, l.allowed(1))
				require.Equal(t, left-1, l.available())
				l.do("SET", l.leftKey(), permits)
				require.Equal(t, left-1, l.available(), "the number is too large")

				l.do("DEL", l.grantsKey())
				require.Equal(t, permits, l.available(), "the grants were lost")
				require.True(t, l.allowed(permits))
				require.False(t, l.allowed(1))

				l.do("SET", l.leftKey(), permits)
				require.False(t, l.allowed(1), "the number is wrong")
			})
		})
	}
}

func TestUnreadableStateIsAnErrorAndNeverAGrant(t *testing.T) {
	wrong := map[string]func(l *limiter){
		"the hash is another's":   func(l *limiter) { l.do("DEL", l.name); l.do("HSET", l.name, "colour", "red") },
		"no interval":             func(l *limiter) { l.do("HDEL", l.name, "interval") },
		"rate is text":            func(l *limiter) { l.do("HSET", l.name, "rate", "many") },
		"interval is 0":           func(l *limiter) { l.do("HSET", l.name, "interval", "0") },
		"interval over 100 years": func(l *limiter) { l.do("HSET", l.name, "interval", "3153600000001") },
		"keepAliveTime is text":   func(l *limiter) { l.do("HSET", l.name, "keepAliveTime", "long") },
		"the number is text":      func(l *limiter) { l.do("SET", l.leftKey(), "all") },
		"the number is too long":  func(l *limiter) { l.do("SET", l.leftKey(), "12345678901234567") },
		"a grant is text":         func(l *limiter) { l.do("ZADD", l.grantsKey(), l.serverTime(), "grant") },
		"a grant is cut short":    func(l *limiter) { l.do("ZADD", l.grantsKey(), l.serverTime(), "\x10abc") },
		"an old grant is text":    func(l *limiter) { l.do("ZADD", l.grantsKey(), 1, "grant") },
	}
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for what, spoil := range wrong {
			l := newLimiter(t, rdb, 5, 60*time.Second)
			kept := l.ask(1).Turn
			spoil(l)
			before := l.state()

			answers, _, err := l.Take(t.Context(), []engine.Request{{N: 1}})
			assert.ErrorIs(t, err, engine.ErrState, what)
			assert.Empty(t, answers, what)
			assert.ErrorIs(t, l.GiveBack(t.Context(), []engine.Return{{Turn: kept, N: 1}}), engine.ErrState, what)
			assert.ErrorIs(t, l.Release(t.Context(), 1), engine.ErrState, what)
			_, err = l.Status(t.Context())
			assert.ErrorIs(t, err, engine.ErrState, what)
			_, err = l.AvailablePermits(t.Context())
			assert.ErrorIs(t, err, engine.ErrState, what)
			assert.Equal(t, before, l.state(), "%s: left as it was", what)

			_, err = l.Delete(t.Context())
			assert.NoError(t, err, what)
			assert.True(t, l.allowed(1), what)
		}
	})
}

// raw is a key's content, whatever its type.
func (l *limiter) raw(key string) any {
	switch l.do("TYPE", key) {
	case "string":
		return l.do("GET", key)
	case "hash":
		return l.do("HGETALL", key)
	case "zset":
		return l.do("ZRANGE", key, 0, -1, "WITHSCORES")
	case "list":
		return l.do("LRANGE", key, 0, -1)
	}
	return nil
}
