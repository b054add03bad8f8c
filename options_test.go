package fairlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestAPrefixStandsBeforeTheKey(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name := redistest.Name(t)
		for prefix, opts := range map[string][]fairlimit.Option{
			"fairlimit:": nil,
			"":           {fairlimit.WithPrefix("")},
			"p{q}":       {fairlimit.WithPrefix("p{q}")},
		} {
			require.NoError(t, named(t, rdb, name, fairlimit.PerHour(1), opts...).Wait(t.Context()))
			left, err := rdb.PTTL(t.Context(), prefix+"{"+name+"}").Result()
			require.NoError(t, err)
			assert.InDelta(t, time.Hour, left, float64(10*time.Second), "the TTL is the backlog")
		}
	})
}

func TestAnErrorOfNewNamesTheLimiterAndHasThePrefixOnce(t *testing.T) {
	t.Parallel()
	rdb, quota := nowhere(t), fairlimit.PerSecond(1)
	made := func(opts ...fairlimit.Option) error {
		_, err := fairlimit.New(rdb, "n", quota, opts...)
		return err
	}
	_, noQuota := fairlimit.New(rdb, "n", fairlimit.Quota{})
	queue, err := fairlimit.NewQueue(rdb, "n", quota)
	require.NoError(t, err)
	_, flow := queue.Flow("", 1)
	_, noQueue := fairlimit.NewQueue(rdb, "n", quota, fairlimit.WithEngine(window.New))
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{noQuota, fairlimit.ErrInvalidQuota, "invalid quota: Permits is 0, want at least 1"},
		{
			made(fairlimit.WithExtraQuota(fairlimit.PerSecond(0))), fairlimit.ErrInvalidQuota,
			"invalid quota: WithExtraQuota: Permits is 0, want at least 1",
		},
		{made(fairlimit.WithGuard(-1)), fairlimit.ErrInvalidOption, "invalid option: WithGuard: -1ns is negative"},
		{
			made(fairlimit.WithFlow("", 1)), fairlimit.ErrInvalidFlow,
			"invalid option: WithFlow: invalid flow: empty id",
		},
		{flow, fairlimit.ErrInvalidFlow, "invalid flow: empty id"},
		{
			made(fairlimit.WithEngine(window.New), fairlimit.WithGuard(time.Second)), fairlimit.ErrUnsupported,
			"not supported by this engine: window has no guard",
		},
		{
			noQueue, fairlimit.ErrUnsupported,
			"not supported by this engine: a Queue, because it grants no turns ahead",
		},
		{
			queue.SetQuotas(t.Context()), fairlimit.ErrInvalidQuota,
			"invalid quota: there is none to store; ForgetQuotas forgets the stored ones",
		},
		{
			queue.SetQuotas(t.Context(), quota, fairlimit.PerSecond(0)), fairlimit.ErrInvalidQuota,
			"invalid quota: Permits is 0, want at least 1",
		},
	} {
		assert.ErrorIs(t, c.err, c.is)
		assert.EqualError(t, c.err, `fairlimit: "n": `+c.text)
	}
}

func TestDuringAPauseAllowIsFalseAndStatusTellsOfIt(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		paused, err := fairlimit.NewQueue(rdb, name, fairlimit.PerSecond(3))
		require.NoError(t, err)
		require.NoError(t, paused.Pause(t.Context(), 10*time.Second))
		for _, l := range []fairlimit.Limiter{paused, named(t, rdb, name, fairlimit.PerSecond(3))} {
			allowed, err := l.Allow(t.Context())
			require.NoError(t, err)
			require.False(t, allowed)
			require.Equal(t, fairlimit.Status{Delay: 10 * time.Second, Paused: 10 * time.Second}, status(t, l))
		}
	})
}
