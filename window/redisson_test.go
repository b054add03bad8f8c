package window_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/window"
)

// grant is one as Redisson writes it, with so many random bytes.
func grant(random, permits int) string {
	b := []byte{byte(random)}
	for range random {
		b = append(b, byte(rand.Uint32()))
	}
	return string(binary.LittleEndian.AppendUint32(b, uint32(permits)))
}

func permitsOf(grant any) int {
	text := grant.(string)
	return int(binary.LittleEndian.Uint32([]byte(text[len(text)-4:])))
}

func TestWhatRedissonWritesIsRead(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1, time.Second)
		l.do("HSET", l.name, "rate", 10, "interval", 60_000, "type", 0) // data of a version without keepAliveTime
		l.do("SET", l.leftKey(), 3)
		l.do("ZADD", l.grantsKey(), l.now()-2, grant(8, 3), l.now()-1, grant(16, 4))

		got, err := l.Config(t.Context())
		require.NoError(t, err)
		require.Equal(t, window.Rate{Permits: 10, Per: time.Minute}, got)
		require.Equal(t, 3, l.available())
		require.True(t, l.allowed(3))
		require.False(t, l.allowed(1))

		require.NoError(t, l.Release(t.Context(), 4))
		grants := l.do("ZRANGE", l.grantsKey(), 0, -1).([]any)
		require.Len(t, grants, 2, "the old grant of 8 bytes is gone, one permit of the next")
		require.Equal(t, []int{3, 3}, []int{permitsOf(grants[0]), permitsOf(grants[1])})
		require.Equal(t, 4, l.available())
	})
}

func TestWhatIsWrittenIsWhatRedissonReads(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		perClient := []window.Option{window.PerClient("0b1a")}
		for _, c := range []struct {
			name, left, grants, mode string
			opts                     []window.Option
		}{
			{"%s", "{%s}:value", "{%s}:permits", "0", nil},
			{"with space %s", "{with space %s}:value", "{with space %s}:permits", "0", nil},
			{"a{b}%s", "a{b}%s:value", "a{b}%s:permits", "0", nil},
			{"a{%s", "a{%s:value", "a{%s:permits", "0", nil},
			{"a}%s", "{a}%s}:value", "{a}%s}:permits", "0", nil},
			{"c%s", "{c%s}:value:0b1a", "{c%s}:permits:0b1a", "1", perClient},
			{"c{%s}", "c{%s}:value:0b1a", "c{%s}:permits:0b1a", "1", perClient},
		} {
			unique := fmt.Sprintf("%p", t) + strconv.Itoa(len(c.name))
			named := func(format string) string { return strings.ReplaceAll(format, "%s", unique) }
			opts := append([]window.Option{window.KeepAlive(70 * time.Second)}, c.opts...)
			l := namedLimiter(t, rdb, named(c.name), 10, time.Minute, opts...)
			before := l.now()
			require.True(t, l.allowed(3))

			fields, err := rdb.HGetAll(t.Context(), named(c.name)).Result()
			require.NoError(t, err)
			require.Equal(t, map[string]string{
				"rate": "10", "interval": "60000", "type": c.mode, "keepAliveTime": "70000",
			}, fields)
			require.Equal(t, "7", l.do("GET", named(c.left)))
			grants, err := rdb.ZRangeWithScores(t.Context(), named(c.grants), 0, -1).Result()
			require.NoError(t, err)
			require.Len(t, grants, 1)
			require.GreaterOrEqual(t, int64(grants[0].Score), before)
			member := grants[0].Member.(string)
			require.Len(t, member, 21)
			require.Equal(t, "\x10\x03\x00\x00\x00", member[:1]+member[17:])
			require.InDelta(t, 70_000, l.do("PTTL", named(c.left)), 2000)

			done, err := open(t, rdb, named(c.name), c.opts...).Delete(t.Context())
			require.NoError(t, err)
			require.True(t, done)
			require.EqualValues(t, 0, l.do("EXISTS", named(c.name), named(c.left), named(c.grants)))
		}
	})
}

func TestNoWindowHoldsMoreThanTheRate(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 18, time.Second)
		var granted []time.Time
		for len(granted) < 1000 {
			if a := l.ask(1); a.Verdict == engine.Granted {
				granted = append(granted, time.Now())
			} else {
				time.Sleep(a.Wait)
			}
		}
		for i, last := range granted[18:] {
			require.GreaterOrEqual(t, last.Sub(granted[i]), time.Second)
		}
	})
}

// The second grant is one of nothing, as an old peer made it.
func TestAPeersFastClockMakesNobodyWaitLonger(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1, time.Second)
		l.do("HSET", l.name, "rate", 1, "interval", 1000, "type", 0, "keepAliveTime", 0)
		l.do("ZADD", l.grantsKey(), l.now()+60_000, grant(16, 1), l.now(), grant(16, 0))
		l.do("SET", l.leftKey(), 0)
		require.LessOrEqual(t, l.status().Delay, time.Second+time.Millisecond)
		a := l.ask(1)
		require.Equal(t, engine.Refused, a.Verdict)
		require.LessOrEqual(t, a.Wait, time.Second+time.Millisecond)
		time.Sleep(a.Wait)
		require.True(t, l.allowed(1))
	})
}

func TestEitherHalfOfTheStateMayBeLost(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for permits, left := range map[int]int{10: 4, 2000: 500} { // more than 1000 are not added up
			l := newLimiter(t, rdb, permits, time.Hour)
			l.fill(permits - left)
			l.do("DEL", l.leftKey())
			require.Equal(t, left, l.available(), "the number was lost")
			require.True(t, l.allowed(1))
			l.do("SET", l.leftKey(), permits)
			require.Equal(t, left-1, l.available(), "the number is too large")

			l.do("DEL", l.grantsKey())
			require.Equal(t, permits, l.available(), "the grants were lost")
			require.True(t, l.allowed(permits))
			l.do("SET", l.leftKey(), permits)
			require.False(t, l.allowed(1), "the number is wrong")
		}
	})
}

func TestUnreadableStateIsAnErrorAndNeverAGrant(t *testing.T) {
	wrong := map[string]func(l *limiter){
		"the hash is another's":   func(l *limiter) { l.do("DEL", l.name); l.do("HSET", l.name, "colour", "red") },
		"no interval":             func(l *limiter) { l.do("HDEL", l.name, "interval") },
		"rate is text":            func(l *limiter) { l.do("HSET", l.name, "rate", "many") },
		"interval is 0":           func(l *limiter) { l.do("HSET", l.name, "interval", "0") },
		"interval over 100 years": func(l *limiter) { l.do("HSET", l.name, "interval", "3153600000001") },
		"the number is text":      func(l *limiter) { l.do("SET", l.leftKey(), "all") },
		"the number is too long":  func(l *limiter) { l.do("SET", l.leftKey(), "12345678901234567") },
		"a grant is cut short":    func(l *limiter) { l.do("ZADD", l.grantsKey(), l.now(), "\x10abc") },
		"an old grant is text":    func(l *limiter) { l.do("ZADD", l.grantsKey(), 1, "grant") },
	}
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for what, spoil := range wrong {
			l := newLimiter(t, rdb, 5, time.Minute)
			kept := l.ask(1).Turn
			spoil(l)
			before := l.state()
			_, _, take := l.Take(t.Context(), []engine.Request{{N: 1}})
			_, status := l.Status(t.Context())
			_, available := l.AvailablePermits(t.Context())
			giveBack := l.GiveBack(t.Context(), []engine.Return{{Turn: kept, N: 1}})
			for _, err := range []error{take, status, available, giveBack, l.Release(t.Context(), 1)} {
				assert.ErrorIs(t, err, engine.ErrState, what)
			}
			assert.Equal(t, before, l.state(), "%s: left as it was", what)
			_, err := l.Reset(t.Context())
			assert.NoError(t, err, what)
			assert.True(t, l.allowed(1), what)
		}
	})
}

func TestARetryIsLateByAMarginAndAtMostTwoTicks(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		const tick = 5 * time.Millisecond
		l := newLimiter(t, rdb, 1, time.Second, window.RetryTick(tick))
		for range 8 {
			require.True(t, l.allowed(1))
			free, a := l.status().Delay, l.ask(1)
			require.GreaterOrEqual(t, a.Wait, free+3*time.Millisecond)
			require.LessOrEqual(t, a.Wait, free+3*time.Millisecond+2*tick)
			time.Sleep(a.Wait)
		}
		require.True(t, l.allowed(1))
		var ticks []time.Time
		for range 9 {
			ticks = append(ticks, time.Now().Add(l.ask(1).Wait))
			time.Sleep(tick)
		}
		for _, other := range ticks {
			require.Equal(t, ticks[0], other, "whenever it is asked, the retry is at one tick")
		}
		time.Sleep(time.Until(ticks[0]))
		require.True(t, l.allowed(1))
		time.Sleep(time.Second + 128*tick) // after which the ticks shift
		require.True(t, l.allowed(1))
		require.NotZero(t, time.Now().Add(l.ask(1).Wait).Sub(ticks[0])%tick, "or two processes tick together")
	})
}
