package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// onBoth runs f with each engine on each kind of server.
func onBoth(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option)) {
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) { f(t, rdb, e) })
		})
	}
}

func TestATurnAfterTheDeadlineIsRefusedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), e)
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		before := status(t, l)

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		start := time.Now()
		err = l.Wait(ctx)
		assert.Less(t, time.Since(start), 10*time.Second)
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, fmt.Errorf("wrapped: %w", err), &refused)
		assert.InDelta(t, time.Hour, refused.Wait, float64(10*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, errors.Is(err, context.Canceled))

		after := status(t, l)
		assert.Equal(t, before.Queued, after.Queued)
		assert.LessOrEqual(t, after.Delay, before.Delay, "a refusal consumes nothing")
	})
}

func TestATurnBeforeTheDeadlineIsWaitedFor(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(100*time.Millisecond), e)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		for range 4 {
			require.NoError(t, l.Wait(ctx))
		}
		assert.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	})
}

func TestACtxThatHasEndedConsumesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(1), e)
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Wait(ended), context.Canceled)
		_, err = l.Allow(ended)
		require.ErrorIs(t, err, context.Canceled)
		_, err = l.Status(ended)
		require.ErrorIs(t, err, context.Canceled)
		if r, ok := l.(fairlimit.Reserver); ok {
			_, err = r.ReserveN(ended, 1)
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Equal(t, fairlimit.Status{Available: 1}, status(t, l))

		require.NoError(t, l.Wait(t.Context()))
		require.ErrorIs(t, l.Reset(ended), context.Canceled)
		assert.Zero(t, status(t, l).Available)
	})
}

func TestMaxWaitBoundsEveryTurn(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), e, fairlimit.WithMaxWait(90*time.Minute))
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		r, ok := l.(fairlimit.Reserver)
		if !ok {
			return
		}
		_, err = r.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		var refused *fairlimit.RefusedError
		_, err = r.ReserveN(t.Context(), 1)
		require.ErrorAs(t, err, &refused)
		assert.InDelta(t, 2*time.Hour, refused.Wait, float64(10*time.Second))
		require.ErrorAs(t, l.Wait(t.Context()), &refused)
		assert.Equal(t, 1, status(t, l).Queued)
	})
}

func TestMaxWaitRefusesThoseWhoWouldAskAgain(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), fairlimit.WithEngine(window.New), fairlimit.WithMaxWait(time.Minute))
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		require.ErrorAs(t, l.Wait(t.Context()), new(*fairlimit.RefusedError))
	})
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

func TestEachCallerIsHeldToAllQuotas(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.PerSecond(2), fairlimit.WithExtraQuota(fairlimit.PerMinute(3)), fairlimit.WithExtraQuota(fairlimit.PerHour(5)))
		start := time.Now()
		var went []time.Duration
		for range 6 {
			require.NoError(t, l.Wait(t.Context()))
			went = append(went, time.Since(start).Round(time.Millisecond))
		}
		assert.Equal(t, []time.Duration{0, 0, time.Second, time.Minute, time.Minute, time.Hour}, went)
		require.ErrorIs(t, l.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
	})
}

func TestAGuardLengthensPer(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Second), fairlimit.WithGuard(50*time.Millisecond))
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, 1050*time.Millisecond, r.Delay())
	})
}
