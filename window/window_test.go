package window_test

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// A field that is added to Config, and that window forgets, fails here.
func TestEveryFieldOfAConfigIsHonouredOrRefused(t *testing.T) {
	refused := map[string]struct {
		value any
		says  string
	}{
		"Extra": {make([]engine.Quota, 1), "one quota, not 1 further"},
		"Units": {make([]engine.Unit, 1), "calls only, not 1 further"},
		"Guard": {time.Second, "no guard"}, "Stored": {true, "no stored quotas"},
	}
	honoured := []string{"Client", "Name", "Prefix", "Quota", "OwnGuard", "Replicas", "Heard"} // or without a meaning
	for _, field := range reflect.VisibleFields(reflect.TypeFor[engine.Config]()) {
		how, refuses := refused[field.Name]
		require.NotEqual(t, refuses, slices.Contains(honoured, field.Name), "Config.%s", field.Name)
		if refuses {
			cfg := engine.Config{Client: redistest.Nowhere(t), Name: "n", Quota: engine.Quota{Permits: 5, Per: time.Second}}
			reflect.ValueOf(&cfg).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(how.value))
			_, err := window.New(cfg)
			require.ErrorIs(t, err, engine.ErrUnsupported, "Config.%s", field.Name)
			require.ErrorContains(t, err, how.says)
		}
	}
}

func TestWhatItCannotHonourIsAnErrorAtConstruction(t *testing.T) {
	t.Parallel()
	rdb := redistest.Nowhere(t)
	ok := engine.Config{Client: rdb, Name: "n", Quota: engine.Quota{Permits: 5, Per: time.Second}}
	for says, change := range map[string]func(*engine.Config){
		"Burst is 4":                    func(c *engine.Config) { c.Quota.Burst = 4 },
		"0s, want at least a milli":     func(c *engine.Config) { c.Quota = engine.Quota{} },
		"999µs, want at least a milli":  func(c *engine.Config) { c.Quota.Per = 999 * time.Microsecond },
		"1.5ms, want whole millisec":    func(c *engine.Config) { c.Quota.Per = 1500 * time.Microsecond },
		"want at most 876000h":          func(c *engine.Config) { c.Quota.Per = math.MaxInt64 / time.Hour * time.Hour },
		"Permits is 4294967296, want a": func(c *engine.Config) { c.Quota.Permits = 1 << 32 },
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
		"KeepAlive is -1s":     window.KeepAlive(-time.Second),
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
		require.False(t, e.Queues())
		require.NoError(t, e.Fits(math.MaxUint32))
		require.ErrorIs(t, e.Fits(1<<32), engine.ErrExceedsQuota)
	}
}

func TestBadArgumentsOfTheAdministration(t *testing.T) {
	t.Parallel()
	rdb := redistest.Nowhere(t)
	for what, open := range map[string]func() (*window.Admin, error){
		"no client":    func() (*window.Admin, error) { return window.Open(nil, "n") },
		"a nil client": func() (*window.Admin, error) { return window.Open((*redis.Client)(nil), "n") },
		"no name":      func() (*window.Admin, error) { return window.Open(rdb, "") },
		"a nil option": func() (*window.Admin, error) { return window.Open(rdb, "n", nil) },
		"no client id": func() (*window.Admin, error) { return window.Open(rdb, "n", window.PerClient("")) },
		"a keep-alive": func() (*window.Admin, error) { return window.Open(rdb, "n", window.KeepAlive(time.Second)) },
		"a retry tick": func() (*window.Admin, error) { return window.Open(rdb, "n", window.RetryTick(time.Second)) },
	} {
		_, err := open()
		require.ErrorIs(t, err, window.ErrInvalidArgument, what)
	}
	a := open(t, rdb, "n")
	for says, rate := range map[string]window.Rate{
		"Permits is 0":             {Per: time.Second},
		"Permits is -1":            {Permits: -1, Per: time.Second},
		"Permits is 4294967296":    {Permits: 1 << 32, Per: time.Second},
		"Per is 0s":                {Permits: 1},
		"Per is -1s":               {Permits: 1, Per: -time.Second},
		"Per is 1.5ms":             {Permits: 1, Per: 1500 * time.Microsecond},
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

func TestOneCallAnswersNoMoreThanItMay(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 500, 60*time.Second)
		requests := slices.Repeat([]engine.Request{{N: 1}}, 1000)
		answers, err := l.Take(t.Context(), requests)
		require.NoError(t, err)
		require.Len(t, answers, 128)
		require.Equal(t, 500-128, l.available())
	})
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
		mine, other := l.ask(3).Grant, l.ask(2).Grant
		require.False(t, l.allowed(1))
		for range 2 {
			require.NoError(t, l.GiveBack(t.Context(), []engine.Grant{mine}))
			require.Equal(t, 3, l.available())
			require.Equal(t, "3", l.do("GET", l.leftKey()))
		}
		require.True(t, l.allowed(3))
		require.False(t, l.allowed(1))
		require.NoError(t, l.GiveBack(t.Context(), []engine.Grant{mine}), "that one is gone")
		require.False(t, l.allowed(1))

		time.Sleep(5*time.Second + 2*time.Millisecond)
		require.True(t, l.allowed(4))
		require.NoError(t, l.GiveBack(t.Context(), []engine.Grant{other}), "it has left the window")
		require.Equal(t, 1, l.available())

		_, err := l.Delete(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.GiveBack(t.Context(), []engine.Grant{mine, other}))
		require.Empty(t, keysLeft(t, rdb, l.name))
		require.NoError(t, l.GiveBack(t.Context(), nil))
	})
}

func TestResetForgetsTheGrantsAndKeepsTheRate(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, opts := range [][]window.Option{nil, {window.PerClient("c")}} {
			l := newLimiter(t, rdb, 5, 60*time.Second, opts...)
			require.True(t, l.allowed(5))
			require.False(t, l.allowed(1))
			require.NoError(t, l.Reset(t.Context()))
			require.Equal(t, []string{l.name}, keysLeft(t, rdb, l.name))
			require.True(t, l.allowed(5))
		}
		for _, field := range []string{"rate", "interval", "type", "keepAliveTime"} {
			l := newLimiter(t, rdb, 5, 60*time.Second)
			require.True(t, l.allowed(5))
			require.NoError(t, rdb.HSet(t.Context(), l.name, field, "broken").Err())
			require.NoError(t, l.Reset(t.Context()))
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
			require.False(t, a.Granted, "granted %v after the microsecond %d", time.Since(granted), after)
			require.LessOrEqual(t, a.Wait, time.Millisecond)
			time.Sleep(a.Wait)
			require.True(t, l.allowed(1))
		}
	})
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t)
	build := func(name string, opts ...window.Option) error {
		quota := engine.Quota{Permits: 1, Per: time.Second}
		_, err := window.With(opts...)(engine.Config{Client: rdb, Name: name, Quota: quota})
		_, openErr := window.Open(rdb, name, opts...)
		require.Equal(t, err == nil, openErr == nil)
		return err
	}
	for _, name := range []string{"a}b", "a{b", "{}x", "a{}{b}"} {
		require.ErrorIs(t, build(name), engine.ErrUnsupported, name)
		require.ErrorContains(t, build(name), strconv.Quote(name))
	}
	require.ErrorIs(t, build("a{b", window.PerClient("}")), engine.ErrUnsupported)
	for i, name := range []string{"plain", "with space", "{tag}", "x{tag}y", "{{x}y}"} {
		require.NoError(t, build(name), name)
		l := namedLimiter(t, rdb, name+strconv.Itoa(i), 2, time.Minute, window.PerClient("}{"))
		require.True(t, l.allowed(2), name)
		require.False(t, l.allowed(1), name)
		require.NoError(t, l.Reset(t.Context()))
		done, err := l.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, done)
	}
}
