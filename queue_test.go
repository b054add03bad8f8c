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

// Narrower for a while, then wide again: those who have heard that they come
// later have to hear that they come sooner again.
func TestThoseWhoSleepHearThatTheQuotaIsWideAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Quota{Permits: 10, Per: time.Second, Burst: 1}
		stored := fairlimit.WithStoredQuota()
		q, other := queueOf(t, rdb, name, quota, stored), queueOf(t, rdb, name, quota, stored)
		narrow := fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1}
		require.NoError(t, other.SetQuotas(t.Context(), quota))
		var g, late goers
		start := time.Now()
		g.wait(t, q, 0, 60) // up to 6 s
		time.Sleep(time.Second)
		require.NoError(t, other.SetQuotas(t.Context(), narrow))
		time.Sleep(2 * time.Second)
		require.NoError(t, other.SetQuotas(t.Context(), quota))
		time.Sleep(time.Second)
		late.wait(t, other, 0, 60)
		g.all.Wait()
		last := time.Since(start)
		late.all.Wait()
		t.Log("last of q", last, "last of other", time.Since(start), "first of other", late.at[0].Sub(start))
		for i := range g.order {
			require.Equal(t, i, g.order[i])
		}
		all := goers{}
		for _, at := range append(g.at, late.at...) {
			if at.Sub(start) > 4500*time.Millisecond {
				all.at = append(all.at, at)
			}
		}
		assert.LessOrEqual(t, all.most(time.Second), 10)
		assert.Less(t, g.at[len(g.at)-1].Sub(start), late.at[0].Sub(start), "first come, first served")
	})
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
