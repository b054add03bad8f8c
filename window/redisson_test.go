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
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/window"
)

// redisson does to a limiter's keys what Redisson does, command by command and
// on a clock that is given to it.
type redisson struct{ *limiter }

func (r redisson) setRate(permits int, per time.Duration, mode int) {
	r.do("HSET", r.name, "rate", permits, "interval", per.Milliseconds(), "type", mode, "keepAliveTime", 0)
}

func (r redisson) member(random, permits int) string {
	b := []byte{byte(random)}
	for range random {
		b = append(b, byte(rand.Uint32()))
	}
	return string(binary.LittleEndian.AppendUint32(b, uint32(permits)))
}

func permitsOf(member string) int {
	return int(binary.LittleEndian.Uint32([]byte(member[len(member)-4:])))
}

func (r redisson) number(v any) int {
	r.t.Helper()
	i, err := strconv.Atoi(v.(string))
	require.NoError(r.t, err)
	return i
}

// held is the permits of the grants in the set, with scores up to the given
// one.
func (r redisson) held(until any) (permits int) {
	for _, m := range r.do("ZRANGEBYSCORE", r.grantsKey(), "-inf", until).([]any) {
		permits += permitsOf(m.(string))
	}
	return permits
}

// available is what its availablePermits returns: what is written, once what
// has lapsed was added.
func (r redisson) available(now int64) int {
	r.t.Helper()
	rate := r.number(r.do("HGET", r.name, "rate"))
	v := r.do("GET", r.leftKey())
	if v == nil {
		return rate
	}
	until := now - int64(r.number(r.do("HGET", r.name, "interval")))
	left, freed := r.number(v), r.held(until)
	if freed == 0 {
		return left
	}
	r.do("ZREMRANGEBYSCORE", r.grantsKey(), "-inf", until)
	if left += freed; left > rate {
		left = rate - r.held("+inf")
	}
	r.do("SET", r.leftKey(), left)
	return left
}

// acquire returns the wait in ms, or -1 if n permits were granted.
func (r redisson) acquire(n int, now int64) (wait int64) {
	r.t.Helper()
	left := r.available(now)
	if left < n {
		oldest, err := r.rdb.ZRangeWithScores(r.t.Context(), r.grantsKey(), 0, 0).Result()
		require.NoError(r.t, err)
		require.NotEmpty(r.t, oldest, "it would fail on arithmetic")
		return 3 + int64(r.number(r.do("HGET", r.name, "interval"))) - (now - int64(oldest[0].Score))
	}
	r.do("ZADD", r.grantsKey(), now, r.member(16, n))
	r.do("SET", r.leftKey(), left-n)
	return -1
}

func (r redisson) acquired(n int, now int64) bool {
	r.t.Helper()
	return r.acquire(n, now) < 0
}

func (r redisson) mustAcquire(n int, now int64) {
	r.t.Helper()
	require.True(r.t, r.acquired(n, now))
}

func TestWhatRedissonWritesIsRead(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1, time.Second)
		r := redisson{l}
		r.do("HSET", l.name, "rate", 10, "interval", 60_000, "type", 0) // data of a version without keepAliveTime
		r.do("SET", l.leftKey(), 3)
		r.do("ZADD", l.grantsKey(), l.serverTime()-2, r.member(8, 3), l.serverTime()-1, r.member(16, 4))

		got, err := l.Config(t.Context())
		require.NoError(t, err)
		require.Equal(t, window.Rate{Permits: 10, Per: 60 * time.Second}, got)
		require.Equal(t, 3, l.available())
		require.True(t, l.allowed(3))
		require.False(t, l.allowed(1))

		require.NoError(t, l.Release(t.Context(), 4))
		members := l.do("ZRANGE", l.grantsKey(), 0, -1).([]any)
		require.Len(t, members, 2, "the old grant of 8 bytes is gone, one permit of the next")
		require.Equal(t, []int{3, 3}, []int{permitsOf(members[0].(string)), permitsOf(members[1].(string))})
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
			l := namedLimiter(t, rdb, named(c.name), 10, 60*time.Second, opts...)
			before := l.serverTime()
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
			require.InDelta(t, before, grants[0].Score, 1, "rounded up")
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

// What Redisson's own suite checks of acquire.
func TestScenariosOfRedisson(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, time.Second)
		for range 2 {
			l.fill(5)
			for range 5 {
				require.False(t, l.allowed(1))
			}
			time.Sleep(time.Second + time.Millisecond)
		}
		l = newLimiter(t, rdb, 2, 5*time.Second)
		l.fill(1)
		time.Sleep(4 * time.Second)
		l.fill(1)
		time.Sleep(1050 * time.Millisecond)
		l.fill(1)
		require.False(t, l.allowed(1))

		l = newLimiter(t, rdb, 18, time.Second)
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

func TestGrantsOfNothingByAnOldPeerCountAsNothing(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 2, time.Second)
		require.True(t, l.allowed(1))
		l.do("ZADD", l.grantsKey(), l.serverTime(), redisson{l}.member(16, 0))
		require.True(t, l.allowed(1))
		a := l.ask(1)
		require.Equal(t, engine.Refused, a.Verdict)
		time.Sleep(a.Wait)
		require.True(t, l.allowed(1))
	})
}

func TestARetryIsLateByAMarginAndAtMostTwoTicks(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		const tick = 100 * time.Millisecond
		l := newLimiter(t, rdb, 1, time.Second, window.RetryTick(tick))
		require.True(t, l.allowed(1))
		var ticks []time.Time
		for range 9 {
			free, a := l.status().Delay, l.ask(1)
			require.Equal(t, engine.Refused, a.Verdict)
			require.GreaterOrEqual(t, a.Wait, free+3*time.Millisecond)
			require.LessOrEqual(t, a.Wait, free+3*time.Millisecond+2*tick)
			ticks = append(ticks, time.Now().Add(a.Wait))
			time.Sleep(tick)
		}
		for _, other := range ticks {
			require.Equal(t, ticks[0], other, "whenever it is asked, the retry is at one tick")
		}
		time.Sleep(time.Until(ticks[0]))
		require.True(t, l.allowed(1))
		time.Sleep(128 * tick) // after which the ticks shift
		require.True(t, l.allowed(1))
		require.NotZero(t, time.Now().Add(l.ask(1).Wait).Sub(ticks[0])%tick, "or two processes tick together")

		again := namedLimiter(t, rdb, l.name, 1, time.Second)
		require.Equal(t, again.status().Delay, again.ask(1).Wait, "without the option as soon as it can be")
	})
}
