package window_test

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/engine/enginetest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	redistest.Everywhere(t, func(t *testing.T, server redistest.Kind) { enginetest.Run(t, window.New, server) })
}

func TestConformanceWithOptions(t *testing.T) {
	t.Parallel()
	options := window.With(window.RetryTick(time.Millisecond), window.PerClient("one"))
	enginetest.Run(t, options, redistest.OnEach)
}

func TestWhatItCannotHonourIsAnErrorAtConstruction(t *testing.T) {
	t.Parallel()
	config := func(change func(*engine.Config)) engine.Config {
		cfg := engine.Config{
			Client: redistest.Nowhere(t), Name: "n", Quota: engine.Quota{Permits: 5, Per: time.Second},
		}
		change(&cfg)
		return cfg
	}
	guard := time.Second
	for says, change := range map[string]func(*engine.Config){
		"Burst is 4":                 func(c *engine.Config) { c.Quota.Burst = 4 },
		"Permits is 0":               func(c *engine.Config) { c.Quota = engine.Quota{} },
		"Per is 1.5ms, want whole":   func(c *engine.Config) { c.Quota.Per = 1500 * time.Microsecond },
		"to 876000h":                 func(c *engine.Config) { c.Quota.Per = 876001 * time.Hour },
		"Permits is 4294967296":      func(c *engine.Config) { c.Quota.Permits = 1 << 32 },
		"one quota, not 1 further":   func(c *engine.Config) { c.Extra = make([]engine.Quota, 1) },
		"calls only, not 1 further":  func(c *engine.Config) { c.Units = make([]engine.Unit, 1) },
		"no guard":                   func(c *engine.Config) { c.Guard = &guard },
		"no stored quotas but its r": func(c *engine.Config) { c.Stored = true },
	} {
		_, err := window.New(config(change))
		require.ErrorIs(t, err, engine.ErrUnsupported)
		require.ErrorContains(t, err, says)
	}
	for says, opt := range map[string]window.Option{
		"empty id":             window.PerClient(""),
		"KeepAlive is 999ms":   window.KeepAlive(999 * time.Millisecond),
		"RetryTick is -1":      window.RetryTick(-1),
		"RetryTick is 24h0m0.": window.RetryTick(24*time.Hour + 1),
		"nil option":           nil,
	} {
		_, err := window.With(opt)(config(func(*engine.Config) {}))
		require.ErrorIs(t, err, window.ErrInvalidArgument)
		require.ErrorContains(t, err, says)
	}
	most := engine.Quota{Permits: math.MaxUint32, Per: 876000 * time.Hour, Burst: math.MaxUint32}
	e, err := window.With(window.KeepAlive(most.Per))(config(func(c *engine.Config) { c.Quota = most }))
	require.NoError(t, err)
	require.NoError(t, e.Fits(math.MaxUint32, ""))
	require.ErrorIs(t, e.Fits(1<<32, ""), engine.ErrExceedsQuota)
	require.ErrorIs(t, e.Fits(1, "token=1"), engine.ErrUnsupported)
}

// Redisson chooses the keys, also those that a Cluster keeps apart.
func TestNamesWhoseKeysAClusterKeepsApartAreRefused(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _ = rdb.Close() }()
	for name, opts := range map[string][]window.Option{
		"a}b": nil, "a{b": nil, "{}x": nil, "a{}{b}": nil, "c{d": {window.PerClient("}")},
	} {
		_, err := window.Open(rdb, name, opts...)
		require.ErrorIs(t, err, engine.ErrUnsupported, name)
	}
	for _, name := range []string{"plain", "with space", "{tag}", "x{tag}y", "{{x}y}"} {
		open(t, rdb, name, window.PerClient("}{"))
	}
}

func TestWhatIsGivenBackIsFreeOnce(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
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
		require.Empty(t, l.there())
	})
}

func TestAWaitEndsWithTheLastGrantThatHasToLeave(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, 8*time.Second)
		for range 5 {
			require.True(t, l.allowed(1))
			time.Sleep(time.Second)
		}
		require.Equal(t, 6*time.Second, l.ask(4).Wait)
		patient := l.take(engine.Request{N: 4, MaxWait: 6*time.Second - 1}, engine.Request{N: 4, MaxWait: 6 * time.Second})
		require.Equal(t, engine.Refused, patient[0].Verdict)
		require.Equal(t, engine.Answer{Verdict: engine.NotYet, Wait: 6 * time.Second}, patient[1], "it may ask again then")
		time.Sleep(3 * time.Second)
		l.do("HSET", l.name, "rate", 3)
		require.Equal(t, 2*time.Second, l.status().Delay, "one has lapsed; two of four have to leave")

		l = newLimiter(t, rdb, 1200, 8*time.Second)
		l.fill(1000)
		time.Sleep(time.Second)
		l.fill(200)
		require.Equal(t, 7*time.Second, l.ask(1100).Wait, "more than are added up")
	})
}

func TestAWindowIsWholeToTheMicrosecond(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		for after := 0; after < 1000; after += 50 {
			l := newLimiter(t, rdb, 1, 10*time.Millisecond)
			time.Sleep(time.Duration(after) * time.Microsecond)
			require.True(t, l.allowed(1))
			time.Sleep(10*time.Millisecond - time.Microsecond)
			a := l.ask(1)
			require.Equal(t, engine.Refused, a.Verdict, "granted %d µs after a millisecond", after)
			require.LessOrEqual(t, a.Wait, time.Millisecond)
			time.Sleep(a.Wait)
			require.True(t, l.allowed(1))
		}
	})
}

func TestResetForgetsTheGrantsAndKeepsTheRate(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, opts := range [][]window.Option{nil, {window.PerClient("c")}} {
			l := newLimiter(t, rdb, 5, time.Minute, opts...)
			require.True(t, l.allowed(5))
			_, err := l.Reset(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{l.name}, l.there())
			require.True(t, l.allowed(5))
		}
	})
}

func TestAProcessIsAClientOfItsOwnWhereTheRateIsPerClient(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, time.Minute)
		perClient := window.Rate{Mode: window.ModePerClient, Permits: 2, Per: time.Minute}
		require.NoError(t, l.SetRate(t.Context(), perClient))
		require.True(t, l.allowed(2))
		require.False(t, l.allowed(1))
		require.False(t, namedLimiter(t, rdb, l.name, 5, time.Minute).allowed(1), "the same process")
		another := namedLimiter(t, rdb, l.name, 5, time.Minute, window.PerClient("another"))
		require.True(t, another.allowed(2))
		l.do("DEL", l.name)
		require.Equal(t, 3, another.status().Available, "its own grants count although the rate is gone")

		keys, _, err := rdb.Scan(t.Context(), 0, regexp.QuoteMeta(l.leftKey())+":*-*", 1_000_000).Result()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Regexp(t, `:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, keys[0])
	})
}

func TestReadersAndRequestsAboveTheRateWriteNothing(t *testing.T) {
	timed(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 5, time.Second, window.KeepAlive(5*time.Hour))
		require.ErrorIs(t, l.ask(6).Err, engine.ErrExceedsQuota)
		require.Empty(t, l.there(), "not even the rate")

		require.True(t, l.allowed(2))
		time.Sleep(4 * time.Hour)
		before := l.state()
		require.ErrorIs(t, l.ask(6).Err, engine.ErrExceedsQuota)
		require.Equal(t, 5, l.available())
		require.Equal(t, engine.Status{Available: 5}, l.status())
		_, err := l.Config(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, l.state())
		l.live(time.Hour)

		answers := l.take(engine.Request{N: 6}, engine.Request{N: 4}, engine.Request{N: 4})
		require.ErrorIs(t, answers[0].Err, engine.ErrExceedsQuota)
		require.Equal(t, engine.Granted, answers[1].Verdict, "another request of the batch fits")
		require.Equal(t, engine.Refused, answers[2].Verdict)
		l.live(5 * time.Hour)
	})
}
