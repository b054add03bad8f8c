package window_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
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

// release gives n permits back, as versions after 4.7.0 do: out of the set too.
func (r redisson) release(n int) {
	r.t.Helper()
	rate, left := r.number(r.do("HGET", r.name, "rate")), r.number(r.do("GET", r.leftKey()))
	r.do("SET", r.leftKey(), min(rate, left+n))
	grants, err := r.rdb.ZRangeWithScores(r.t.Context(), r.grantsKey(), 0, -1).Result()
	require.NoError(r.t, err)
	for _, g := range grants {
		if n <= 0 {
			return
		}
		member := g.Member.(string)
		has := permitsOf(member)
		r.do("ZREM", r.grantsKey(), member)
		if has > n {
			rest := binary.LittleEndian.AppendUint32([]byte(member[:len(member)-4]), uint32(has-n))
			r.do("ZADD", r.grantsKey(), int64(g.Score), string(rest))
		}
		n -= has
	}
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
		for _, c := range []struct {
			name, left, grants string
			mode               int
			opts               []window.Option
		}{
			{"%s", "{%s}:value", "{%s}:permits", 0, nil},
			{"with space %s", "{with space %s}:value", "{with space %s}:permits", 0, nil},
			{"a{b}%s", "a{b}%s:value", "a{b}%s:permits", 0, nil},
			{"a{%s", "a{%s:value", "a{%s:permits", 0, nil},
			{"a}%s", "{a}%s}:value", "{a}%s}:permits", 0, nil},
			{"c%s", "{c%s}:value:0b1a", "{c%s}:permits:0b1a", 1, []window.Option{window.PerClient("0b1a")}},
			{"c{%s}", "c{%s}:value:0b1a", "c{%s}:permits:0b1a", 1, []window.Option{window.PerClient("0b1a")}},
		} {
			unique := fmt.Sprintf("%p", t) + strconv.Itoa(len(c.name))
			named := func(format string) string { return strings.ReplaceAll(format, "%s", unique) }
			opts := slices.Concat(c.opts, []window.Option{window.KeepAlive(70 * time.Second)})
			l := namedLimiter(t, rdb, named(c.name), 10, 60*time.Second, opts...)
			before := l.serverTime()
			require.True(t, l.allowed(3))
			after := l.serverTime()

			fields, err := rdb.HGetAll(t.Context(), named(c.name)).Result()
			require.NoError(t, err)
			require.Equal(t, map[string]string{
				"rate":          "10",
				"interval":      strconv.FormatInt((60 * time.Second).Milliseconds(), 10),
				"type":          strconv.Itoa(c.mode),
				"keepAliveTime": strconv.FormatInt((70 * time.Second).Milliseconds(), 10),
			}, fields)
			require.Equal(t, "7", l.do("GET", named(c.left)))
			grants, err := rdb.ZRangeWithScores(t.Context(), named(c.grants), 0, -1).Result()
			require.NoError(t, err)
			require.Len(t, grants, 1)
			require.GreaterOrEqual(t, int64(grants[0].Score), before)
			require.LessOrEqual(t, int64(grants[0].Score), after+1, "rounded up")
			member := grants[0].Member.(string)
			require.Len(t, member, 21)
			require.Equal(t, byte(16), member[0])
			require.Equal(t, "\x03\x00\x00\x00", member[17:])
			require.InDelta(t, (70 * time.Second).Milliseconds(), l.do("PTTL", named(c.left)), 2000)

			done, err := open(t, rdb, named(c.name), c.opts...).Delete(t.Context())
			require.NoError(t, err)
			require.True(t, done)
			require.EqualValues(t, 0, l.do("EXISTS", named(c.name), named(c.left), named(c.grants)))
		}
	})
}

func TestAPrefixIsInFrontOfTheName(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		prefix := fmt.Sprintf("%p:", t)
		quota := engine.Quota{Permits: 2, Per: time.Second}
		e, err := window.New(engine.Config{Client: rdb, Name: "n", Prefix: &prefix, Quota: quota})
		require.NoError(t, err)
		_, err = e.Take(t.Context(), []engine.Request{{N: 1}})
		require.NoError(t, err)
		require.Len(t, keysLeft(t, rdb, prefix+"n"), 3)
	})
}

func TestGrantsOfNothingByAnOldPeerCountAsNothing(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 2, time.Second)
		require.True(t, l.allowed(1))
		l.do("ZADD", l.grantsKey(), l.serverTime(), redisson{l}.member(16, 0))
		require.True(t, l.allowed(1))
		a := l.ask(1)
		require.False(t, a.Granted)
		time.Sleep(a.Wait)
		require.True(t, l.allowed(1))

		time.Sleep(time.Second)
		require.True(t, l.allowed(1))
		time.Sleep(time.Millisecond)
		l.do("ZADD", l.grantsKey(), l.serverTime(), redisson{l}.member(16, 0))
		time.Sleep(time.Millisecond)
		require.True(t, l.allowed(1))
		require.NoError(t, l.Release(t.Context(), 2), "of which one is behind the grant of nothing")
		require.True(t, l.allowed(2))
	})
}

// contest is callers of both kinds that ask for one permit after another, as
// fast as they can. Each of them counts what its kind was granted.
type contest struct {
	*limiter
	end   time.Time
	redis sync.Mutex // the commands of Redisson are one script there
	java  int
	ours  int
}

const roundTrip = 300 * time.Microsecond

// redisson is one caller of Redisson, which has a wheel timer.
func (c *contest) redisson(tick time.Duration) {
	start := time.Now()
	for time.Now().Before(c.end) {
		time.Sleep(roundTrip)
		c.redis.Lock()
		wait := redisson{c.limiter}.acquire(1, c.serverTime())
		if wait < 0 {
			c.java++
		}
		c.redis.Unlock()
		if wait >= 0 {
			due := time.Since(start) + time.Duration(wait)*time.Millisecond
			time.Sleep((due/tick+1)*tick - time.Since(start))
		}
	}
}

// window is one caller of ours.
func (c *contest) window(opts ...window.Option) {
	l := namedLimiter(c.t, c.rdb, c.name, 1, time.Second, opts...)
	for time.Now().Before(c.end) {
		time.Sleep(roundTrip)
		c.redis.Lock()
		a := l.ask(1)
		if a.Granted {
			c.ours++
		}
		c.redis.Unlock()
		time.Sleep(a.Wait)
	}
}

// shares has 4 callers of each kind, each in a process of its own, take 18 permits
// a second for some seconds, and returns what each kind got.
func shares(
	t *testing.T, rdb redis.UniversalClient, seed uint64, seconds int, tick time.Duration, opts ...window.Option,
) (java, ours int) {
	random := rand.New(rand.NewPCG(21, seed))
	c := &contest{limiter: newLimiter(t, rdb, 1, time.Second)}
	c.end = time.Now().Add(time.Duration(seconds) * time.Second)
	redisson{c.limiter}.setRate(18, time.Second, 0)
	var group sync.WaitGroup
	for range 4 {
		for _, process := range []func(){func() { c.redisson(tick) }, func() { c.window(opts...) }} {
			begins := time.Duration(random.Int64N(int64(tick)))
			group.Go(func() {
				time.Sleep(begins)
				process()
			})
		}
	}
	group.Wait()
	return c.java, c.ours
}

func TestWithRetryTickBothSidesGetAShare(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, tick := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond} {
			java, ours := shares(t, rdb, 0, redistest.Long(10, 60), tick)
			require.Less(t, java*5, ours, "without it, as the documentation says, for ticks of %v", tick)
			java, ours = 0, 0
			for seed := range uint64(3) {
				j, o := shares(t, rdb, seed, redistest.Long(12, 200), tick, window.RetryTick(tick))
				java, ours = java+j, ours+o
			}
			t.Logf("ticks of %v: Redisson %d, window %d", tick, java, ours)
			require.Greater(t, java*3, ours)
			require.Greater(t, ours*3, java)
		}
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
			require.False(t, a.Granted)
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
		require.NotZero(t, time.Now().Add(l.ask(1).Wait).Sub(ticks[0])%tick, "or two processes would tick together for ever")

		again := namedLimiter(t, rdb, l.name, 1, time.Second)
		require.Equal(t, again.status().Delay, again.ask(1).Wait, "without the option as soon as it can be")
	})
}
