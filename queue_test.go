package fairlimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestWindowHasNoQueue(t *testing.T) {
	onWindow := fairlimit.WithEngine(window.New)
	_, err := fairlimit.NewQueue(nowhere(t), "n", fairlimit.PerSecond(1), onWindow)
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	_, err = fairlimit.Open(nowhere(t), "n", onWindow)
	require.Error(t, err)
	for name, opt := range map[string]fairlimit.Option{
		"WithPauseWithin": fairlimit.WithPauseWithin(time.Second),
		"WithMaxLateness": fairlimit.WithMaxLateness(time.Second),
		"WithStoredQuota": fairlimit.WithStoredQuota(),
	} {
		_, err = fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), onWindow, opt)
		require.ErrorIs(t, err, fairlimit.ErrUnsupported, name)
	}
}

func TestNewMakesAQueueOnFair(t *testing.T) {
	l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1))
	require.NoError(t, err)
	assert.IsType(t, &fairlimit.Queue{}, l)
}

func TestNegativeTimesAreNoOptions(t *testing.T) {
	for _, opt := range []fairlimit.Option{fairlimit.WithPauseWithin(-1), fairlimit.WithMaxLateness(-1)} {
		_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), opt)
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
	}
}

func TestQuotasAreSetAsTheyAreGiven(t *testing.T) {
	_, q := newSteered(t)
	require.ErrorIs(t, q.SetQuotas(t.Context()), fairlimit.ErrInvalidQuota, "none")
	require.ErrorIs(t, q.SetQuotas(t.Context(), fairlimit.Quota{}), fairlimit.ErrInvalidQuota)
	require.NoError(t, q.SetQuotas(t.Context(), fairlimit.PerSecond(20), fairlimit.PerMinute(100)))
}

func TestAQueueWithQuotasOfItsOwnKnowsThem(t *testing.T) {
	opts := []fairlimit.Option{fairlimit.WithExtraQuota(fairlimit.PerHour(9)), fairlimit.WithGuard(time.Second)}
	q, err := fairlimit.NewQueue(nowhere(t), "n", fairlimit.PerSecond(1), opts...)
	require.NoError(t, err)
	for range 2 {
		quotas, stored, err := q.Quotas(t.Context())
		require.NoError(t, err)
		assert.False(t, stored)
		assert.Equal(t, []fairlimit.Quota{fairlimit.PerSecond(1), fairlimit.PerHour(9)}, quotas)
		quotas[0].Permits = 7
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = q.Quotas(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAnOpenedQueueTellsTheStoredQuotas(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		q, err := fairlimit.Open(rdb, redistest.Name(t))
		require.NoError(t, err)
		quotas, stored, err := q.Quotas(t.Context())
		require.NoError(t, err)
		assert.Empty(t, quotas)
		assert.False(t, stored)

		want := []fairlimit.Quota{fairlimit.PerSecond(20), {Permits: 100, Per: 2 * time.Minute, Burst: 10}}
		require.NoError(t, q.SetQuotas(t.Context(), want...))
		quotas, stored, err = q.Quotas(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, quotas)
		assert.True(t, stored)
		err = q.Wait(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrNoQuota, "it was not made WithStoredQuota")
		require.ErrorContains(t, err, "NewQueue takes one")

		require.NoError(t, q.ForgetQuotas(t.Context()))
		_, stored, err = q.Quotas(t.Context())
		require.NoError(t, err)
		assert.False(t, stored)
	})
}
