package window_test

import (
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestWhatItCannotHonourIsAnErrorAtConstruction(t *testing.T) {
	t.Parallel()
	rdb := redistest.Nowhere(t)
	ok := engine.Config{Client: rdb, Name: "n", Quota: engine.Quota{Permits: 5, Per: time.Second}}
	guard := time.Second
	for says, change := range map[string]func(*engine.Config){
		"Burst is 4":                 func(c *engine.Config) { c.Quota.Burst = 4 },
		"Permits is 0":               func(c *engine.Config) { c.Quota = engine.Quota{} },
		"Per is 999µs, want whole":   func(c *engine.Config) { c.Quota.Per = 999 * time.Microsecond },
		"Per is 1.5ms, want whole":   func(c *engine.Config) { c.Quota.Per = 1500 * time.Microsecond },
		"to 876000h":                 func(c *engine.Config) { c.Quota.Per = math.MaxInt64 / time.Hour * time.Hour },
		"Permits is 4294967296":      func(c *engine.Config) { c.Quota.Permits = 1 << 32 },
		"one quota, not 1 further":   func(c *engine.Config) { c.Extra = make([]engine.Quota, 1) },
		"calls only, not 1 further":  func(c *engine.Config) { c.Units = make([]engine.Unit, 1) },
		"no guard":                   func(c *engine.Config) { c.Guard = &guard },
		"no stored quotas but its r": func(c *engine.Config) { c.Stored = true },
	} {
		cfg := ok
		change(&cfg)
		e, err := window.New(cfg)
		require.ErrorIs(t, err, engine.ErrUnsupported)
		require.ErrorContains(t, err, says)
		require.Nil(t, e)
	}
	for says, opt := range map[string]window.Option{
		"empty id":             window.PerClient(""),
		"KeepAlive is 999ms":   window.KeepAlive(999 * time.Millisecond),
		"KeepAlive is 1.0005s": window.KeepAlive(1000500 * time.Microsecond),
		"RetryTick is -1":      window.RetryTick(-1),
		"RetryTick is 24h0m0.": window.RetryTick(24*time.Hour + 1),
		"nil option":           nil,
	} {
		_, err := window.With(opt)(ok)
		require.ErrorIs(t, err, window.ErrInvalidArgument)
		require.ErrorContains(t, err, says)
	}
	for _, quota := range []engine.Quota{
		{Permits: 5, Per: time.Second, Burst: 5},
		{Permits: math.MaxUint32, Per: time.Millisecond},
		{Permits: 1, Per: 876000 * time.Hour},
	} {
		cfg := ok
		cfg.Quota = quota
		e, err := window.With(window.KeepAlive(quota.Per), window.RetryTick(24*time.Hour))(cfg)
		require.NoError(t, err)
		require.NoError(t, e.Fits(math.MaxUint32, ""))
		require.ErrorIs(t, e.Fits(1<<32, ""), engine.ErrExceedsQuota)
		require.ErrorIs(t, e.Fits(1, "token=1"), engine.ErrUnsupported)
	}
}

func TestBadArgumentsOfTheAdministration(t *testing.T) {
	t.Parallel()
	rdb := redistest.Nowhere(t)
	for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil)} {
		_, err := window.Open(client, "n")
		require.ErrorIs(t, err, window.ErrInvalidArgument)
	}
	_, err := window.Open(rdb, "")
	require.ErrorIs(t, err, window.ErrInvalidArgument)
	for what, opt := range map[string]window.Option{
		"a nil option": nil, "no client id": window.PerClient(""), "a keep-alive": window.KeepAlive(time.Second),
		"a retry tick": window.RetryTick(time.Second),
	} {
		_, err := window.Open(rdb, "n", opt)
		require.ErrorIs(t, err, window.ErrInvalidArgument, what)
	}
	a := open(t, rdb, "n")
	for says, rate := range map[string]window.Rate{
		"Permits is -1":            {Permits: -1, Per: time.Second},
		"Per is -1s":               {Permits: 1, Per: -time.Second},
		"Mode is 2":                {Permits: 1, Per: time.Second, Mode: 2},
		"KeepAlive is 999ms, want": {Permits: 1, Per: time.Second, KeepAlive: 999 * time.Millisecond},
		"KeepAlive is -1s":         {Permits: 1, Per: time.Second, KeepAlive: -time.Second},
	} {
		_, err := a.TrySetRate(t.Context(), rate)
		require.ErrorIs(t, err, window.ErrInvalidArgument)
		require.ErrorContains(t, err, says)
		require.ErrorIs(t, a.SetRate(t.Context(), rate), window.ErrInvalidArgument)
		_, err = a.UpdateRate(t.Context(), rate, true)
		require.ErrorIs(t, err, window.ErrInvalidArgument)
	}
}

func TestAGrantMayHoldManyPermits(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1<<31, time.Hour)
		require.True(t, l.allowed(1<<25))
		require.Equal(t, 1<<31-1<<25, l.available())
	})
}

func TestWhatIsGivenBackIsFreeOnce(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, 5*time.Second)
		mine, other := l.ask(3).Turn, l.ask(2).Turn
		require.NoError(t, l.GiveBack(t.Context(), []engine.Return{{Turn: mine, N: 2}}), "a part stays")
		require.False(t, l.allowed(1))
		for range 2 {
			l.giveBack(mine)
			require.Equal(t, 3, l.available())
			require.Equal(t, "3", l.do("GET", l.leftKey()))
		}
		require.True(t, l.allowed(3))
		l.giveBack(mine)
		require.False(t, l.allowed(1), "that one is gone")

		time.Sleep(5*time.Second + 2*time.Millisecond)
		require.True(t, l.allowed(4))
		l.giveBack(other)
		require.Equal(t, 1, l.available(), "it has left the window")
		_, err := l.Delete(t.Context())
		require.NoError(t, err)
		l.giveBack(other)
		require.Empty(t, keysLeft(t, rdb, l.name))
	})
}

// A caller that waits is told when to ask again, as late as its wait allows.
func TestWhoAcceptsTheWaitMayAskAgain(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 1, 10*time.Second)
		require.True(t, l.allowed(1))
		for wait, want := range map[time.Duration]engine.Verdict{
			0: engine.Refused, 10*time.Second - 1: engine.Refused,
			10 * time.Second: engine.NotYet, engine.Forever: engine.NotYet,
		} {
			answers, news, err := l.Take(t.Context(), []engine.Request{{N: 1, MaxWait: wait}})
			require.NoError(t, err)
			require.Equal(t, []engine.Answer{{Verdict: want, Wait: 10 * time.Second}}, answers)
			require.Equal(t, engine.News{Sent: news.Sent, Arrived: news.Arrived}, news)
			require.False(t, news.Sent.IsZero())
		}
	})
}

func TestResetForgetsTheGrantsAndKeepsTheRate(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, opts := range [][]window.Option{nil, {window.PerClient("c")}} {
			l := newLimiter(t, rdb, 5, 60*time.Second, opts...)
			require.True(t, l.allowed(5))
			require.False(t, l.allowed(1))
			l.reset()
			require.Equal(t, []string{l.name}, keysLeft(t, rdb, l.name))
			require.True(t, l.allowed(5))
		}
		for _, field := range []string{"rate", "interval", "type", "keepAliveTime"} {
			l := newLimiter(t, rdb, 5, 60*time.Second)
			require.True(t, l.allowed(5))
			require.NoError(t, rdb.HSet(t.Context(), l.name, field, "broken").Err())
			l.reset()
			require.Empty(t, keysLeft(t, rdb, l.name), "a rate that cannot be read goes")
		}
	})
}

func TestAProcessIsAClientOfItsOwnWhereTheRateIsPerClient(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, 60*time.Second)
		perClient := window.Rate{Mode: window.ModePerClient, Permits: 2, Per: 60 * time.Second}
		require.NoError(t, l.SetRate(t.Context(), perClient))
		require.True(t, l.allowed(2))
		require.False(t, l.allowed(1))
		require.False(t, namedLimiter(t, rdb, l.name, 5, 60*time.Second).allowed(1), "the same process")
		require.True(t, namedLimiter(t, rdb, l.name, 5, 60*time.Second, window.PerClient("another")).allowed(2))

		keys, _, err := rdb.Scan(t.Context(), 0, regexp.QuoteMeta(l.leftKey())+":*-*", 1_000_000).Result()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Regexp(t, `:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, keys[0])
	})
}

func TestItsOwnGrantsCountAlthoughTheRateIsGone(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, 60*time.Second, window.PerClient("c"))
		require.True(t, l.allowed(2))
		l.do("DEL", l.name)
		require.Equal(t, 3, l.status().Available)
		require.False(t, l.allowed(4))
	})
}

func TestAWindowIsWholeToTheMicrosecond(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for after := 0; after < 1000; after += 1000 / redistest.Long(40, 1000) {
			l := newLimiter(t, rdb, 1, 10*time.Millisecond)
			time.Sleep(time.Duration(after) * time.Microsecond)
			granted := time.Now()
			require.True(t, l.allowed(1))
			time.Sleep(10*time.Millisecond - time.Microsecond)
			a := l.ask(1)
			require.Equal(t, engine.Refused, a.Verdict, "granted after %v", time.Since(granted))
			require.LessOrEqual(t, a.Wait, time.Millisecond)
			time.Sleep(a.Wait)
			require.True(t, l.allowed(1))
		}
	})
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t)
	for name, opts := range map[string][]window.Option{
		"a}b": nil, "a{b": nil, "{}x": nil, "a{}{b}": nil, "c{d": {window.PerClient("}")},
	} {
		quota := engine.Quota{Permits: 1, Per: time.Second}
		_, err := window.With(opts...)(engine.Config{Client: rdb, Name: name, Quota: quota})
		require.ErrorIs(t, err, engine.ErrUnsupported, name)
		require.ErrorContains(t, err, strconv.Quote(name))
		_, err = window.Open(rdb, name, opts...)
		require.ErrorIs(t, err, engine.ErrUnsupported, name)
	}
	for _, name := range []string{"plain", "with space", "{tag}", "x{tag}y", "{{x}y}"} {
		l := namedLimiter(t, rdb, name, 2, time.Minute, window.PerClient("}{"))
		require.True(t, l.allowed(2), name)
		require.False(t, l.allowed(1), name)
		done, err := l.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, done)
	}
}
