package fairlimit_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	second := fairlimit.PerSecond(1)
	onWindow := fairlimit.WithEngine(window.New)
	type options = []fairlimit.Option
	for name, c := range map[string]struct {
		rdb   redis.UniversalClient
		name  string
		quota fairlimit.Quota
		opts  options
		want  error
	}{
		"nil client":              {nil, "n", second, nil, fairlimit.ErrNilClient},
		"nil *redis.Client":       {(*redis.Client)(nil), "n", second, nil, fairlimit.ErrNilClient},
		"nil *redis.Ring":         {(*redis.Ring)(nil), "n", second, nil, fairlimit.ErrNilClient},
		"nil *ClusterClient":      {(*redis.ClusterClient)(nil), "n", second, nil, fairlimit.ErrNilClient},
		"empty name":              {nowhere(t), "", second, nil, fairlimit.ErrEmptyName},
		"zero quota":              {nowhere(t), "n", fairlimit.Quota{}, nil, fairlimit.ErrInvalidQuota},
		"no permits":              {nowhere(t), "n", fairlimit.PerSecond(0), nil, fairlimit.ErrInvalidQuota},
		"negative permits":        {nowhere(t), "n", fairlimit.PerMinute(-1), nil, fairlimit.ErrInvalidQuota},
		"zero Per":                {nowhere(t), "n", fairlimit.Every(0), nil, fairlimit.ErrInvalidQuota},
		"negative Per":            {nowhere(t), "n", fairlimit.Every(-time.Second), nil, fairlimit.ErrInvalidQuota},
		"negative Burst":          {nowhere(t), "n", fairlimit.Quota{Permits: 5, Per: time.Second, Burst: -1}, nil, fairlimit.ErrInvalidQuota},
		"Burst over Permits":      {nowhere(t), "n", fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 6}, nil, fairlimit.ErrInvalidQuota},
		"Per too long":            {nowhere(t), "n", fairlimit.Every(math.MaxInt64), nil, fairlimit.ErrUnsupported},
		"Per too long, on window": {nowhere(t), "n", fairlimit.Every(math.MaxInt64), options{onWindow}, fairlimit.ErrUnsupported},
		"Per too long with guard": {
			nowhere(t), "n", fairlimit.Every(math.MaxInt64),
			options{fairlimit.WithGuard(math.MaxInt64)},
			fairlimit.ErrUnsupported,
		},
		"guard too long":               {nowhere(t), "n", second, options{fairlimit.WithGuard(math.MaxInt64)}, fairlimit.ErrUnsupported},
		"too many permits":             {nowhere(t), "n", fairlimit.PerHour(math.MaxInt), nil, fairlimit.ErrUnsupported},
		"too many permits, on window":  {nowhere(t), "n", fairlimit.PerHour(math.MaxInt), options{onWindow}, fairlimit.ErrUnsupported},
		"Burst in no time":             {nowhere(t), "n", fairlimit.Quota{Permits: 1000, Per: 10 * time.Microsecond, Burst: 1}, nil, fairlimit.ErrUnsupported},
		"Burst, on window":             {nowhere(t), "n", fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1}, options{onWindow}, fairlimit.ErrUnsupported},
		"further quota, on window":     {nowhere(t), "n", second, options{onWindow, fairlimit.WithExtraQuota(second)}, fairlimit.ErrUnsupported},
		"guard, on window":             {nowhere(t), "n", second, options{onWindow, fairlimit.WithGuard(1)}, fairlimit.ErrUnsupported},
		"Per of less than 1 ms, there": {nowhere(t), "n", fairlimit.Every(time.Microsecond), options{onWindow}, fairlimit.ErrUnsupported},
		"nil option":                   {nowhere(t), "n", second, options{nil}, fairlimit.ErrInvalidOption},
		"nil engine":                   {nowhere(t), "n", second, options{fairlimit.WithEngine(nil)}, fairlimit.ErrInvalidOption},
		"negative max wait":            {nowhere(t), "n", second, options{fairlimit.WithMaxWait(-1)}, fairlimit.ErrInvalidOption},
		"negative guard":               {nowhere(t), "n", second, options{fairlimit.WithGuard(-1)}, fairlimit.ErrInvalidOption},
		"zero further quota":           {nowhere(t), "n", second, options{fairlimit.WithExtraQuota(fairlimit.Quota{})}, fairlimit.ErrInvalidQuota},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := fairlimit.New(c.rdb, c.name, c.quota, c.opts...)
			require.ErrorIs(t, err, c.want)
			assert.Nil(t, l)
			assert.Contains(t, err.Error(), "fairlimit: ")
			for _, other := range []error{
				fairlimit.ErrNilClient, fairlimit.ErrEmptyName, fairlimit.ErrInvalidQuota, fairlimit.ErrInvalidOption, fairlimit.ErrUnsupported,
				fairlimit.ErrInvalidPermits, fairlimit.ErrExceedsQuota, fairlimit.ErrOutcomeUnknown, fairlimit.ErrState,
			} {
				assert.Equal(t, other == c.want, errors.Is(err, other), "%v", other)
			}
		})
	}
}

func TestAnEngineMayRefuseToBeBuilt(t *testing.T) {
	fails := func(engine.Config) (engine.Engine, error) { return nil, assert.AnError }
	_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(fails))
	require.ErrorIs(t, err, assert.AnError)
	lazy := func(engine.Config) (engine.Engine, error) { return nil, nil }
	_, err = fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(lazy))
	require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
}

func TestBadNumbersOfPermitsAreErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(3), e)
		require.NoError(t, err)
		for n, want := range map[int]error{
			0: fairlimit.ErrInvalidPermits, -1: fairlimit.ErrInvalidPermits, math.MinInt: fairlimit.ErrInvalidPermits,
			4: fairlimit.ErrExceedsQuota, math.MaxInt: fairlimit.ErrExceedsQuota,
		} {
			require.ErrorIs(t, l.WaitN(t.Context(), n), want, "WaitN(%d)", n)
			allowed, err := l.AllowN(t.Context(), n)
			require.ErrorIs(t, err, want, "AllowN(%d)", n)
			require.False(t, allowed)
			if r, ok := l.(fairlimit.Reserver); ok {
				_, err = r.ReserveN(t.Context(), n)
				require.ErrorIs(t, err, want, "ReserveN(%d)", n)
			}
		}
		assert.Equal(t, fairlimit.Status{Available: 3}, status(t, l))
	})
}

func TestAForeignKeyIsAnErrorAndIsLeftAlone(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name := redistest.Name(t)
		key := limitertest.Key(name)
		l := named(t, rdb, name, fairlimit.PerSecond(1))
		for what, put := range map[string]func() error{
			"list":      func() error { return rdb.LPush(t.Context(), key, "x").Err() },
			"hash":      func() error { return rdb.HSet(t.Context(), key, "x", "y").Err() },
			"text":      func() error { return rdb.Set(t.Context(), key, "x", time.Hour).Err() },
			"no expiry": func() error { return rdb.Set(t.Context(), key, "fair1", 0).Err() },
		} {
			require.NoError(t, rdb.Del(t.Context(), key).Err())
			require.NoError(t, put())
			before, err := rdb.Type(t.Context(), key).Result()
			require.NoError(t, err)
			require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrState, what)
			allowed, err := l.Allow(t.Context())
			require.ErrorIs(t, err, fairlimit.ErrState, what)
			require.False(t, allowed)
			_, err = l.Status(t.Context())
			require.ErrorIs(t, err, fairlimit.ErrState, what)
			after, err := rdb.Type(t.Context(), key).Result()
			require.NoError(t, err)
			require.Equal(t, before, after)
			require.NoError(t, l.Reset(t.Context()))
			require.NoError(t, l.Wait(t.Context()))
		}
	})
}

func TestOddNamesWork(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		for _, odd := range []string{" ", "{", "}", "{}", "}{", "a{b}c", "a b\tc\n", "\x00\xff", "%s%d", strings.Repeat("k", 1024)} {
			l, err := fairlimit.New(rdb, odd+redistest.Name(t), fairlimit.PerHour(1), e)
			require.NoError(t, err, "%q", odd)
			require.NoError(t, l.Wait(t.Context()), "%q", odd)
			allowed, err := l.Allow(t.Context())
			require.NoError(t, err, "%q", odd)
			assert.False(t, allowed, "%q", odd)
		}
	})
}

func TestANilCtxPanicsAsEverywhere(t *testing.T) {
	l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1))
	require.NoError(t, err)
	var none context.Context
	assert.Panics(t, func() { _ = l.Wait(none) })
}

func TestAllowTakesNowOrLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(5), e)
		require.NoError(t, err)
		allowed := func(n int) bool {
			ok, err := l.AllowN(t.Context(), n)
			require.NoError(t, err)
			return ok
		}
		assert.True(t, allowed(3))
		for range 10 {
			assert.False(t, allowed(3))
		}
		assert.True(t, allowed(2))
		ok, err := l.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, ok)
		assert.Zero(t, status(t, l).Queued)
	})
}

func TestStatusTellsWhatTheNextCallerFinds(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Quota{Permits: 4, Per: 10 * time.Second, Burst: 2})
		assert.Equal(t, fairlimit.Status{Available: 2}, status(t, l), "a burst goes at once")
		require.NoError(t, l.WaitN(t.Context(), 2))
		assert.Equal(t, fairlimit.Status{Delay: 5 * time.Second}, status(t, l))
		_, err := l.ReserveN(t.Context(), 2)
		require.NoError(t, err)
		assert.Equal(t, fairlimit.Status{Queued: 2, Delay: 10 * time.Second}, status(t, l))

		time.Sleep(5 * time.Second)
		assert.Equal(t, fairlimit.Status{Delay: 5 * time.Second}, status(t, l))
		require.NoError(t, l.Reset(t.Context()))
		assert.Equal(t, fairlimit.Status{Available: 2}, status(t, l))
	})
}

func TestResetLetsTheNextCallerGo(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(2), e)
		require.NoError(t, err)
		require.NoError(t, l.Reset(t.Context()), "an idle limiter, too")
		require.NoError(t, l.WaitN(t.Context(), 2))
		require.NoError(t, l.Reset(t.Context()))
		assert.Equal(t, fairlimit.Status{Available: 2}, status(t, l))
		require.NoError(t, l.WaitN(t.Context(), 2))
	})
}
