package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

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
	t.Parallel()
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
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), e,
			fairlimit.WithMaxWait(90*time.Minute))
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
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), fairlimit.WithEngine(window.New),
			fairlimit.WithMaxWait(time.Minute))
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		require.ErrorAs(t, l.Wait(t.Context()), new(*fairlimit.RefusedError))
	})
}

func TestTheTimeInLineCountsAgainstTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		errs := lineUp(ctx, l, 2, 2)
		time.Sleep(time.Second)
		first.grants(1)
		second := <-e.calls
		assert.Equal(t, 2*time.Second, second.requests[0].MaxWait)
		second.grants(1)
		require.NoError(t, <-errs)
	})
}

func TestAGrantThatComesTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		errs := lineUp(ctx, l, 1, 1)
		c := <-e.calls
		time.Sleep(time.Second)
		c.answers(granted(2500*time.Millisecond, 1))
		err := <-errs
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, 2500*time.Millisecond, refused.Wait)
		assert.Equal(t, time.Second, time.Since(start), "it is refused as soon as it is known to be late")
		assert.Len(t, e.givenBack(), 1)
	})
}

func TestARefusalThatComesTooLateIsNotSleptOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		e.queues = false
		l := e.limiter(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		errs := lineUp(ctx, l, 1, 1)
		c := <-e.calls
		time.Sleep(time.Second)
		c.answers(refused(2500 * time.Millisecond))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestWhoIsRefusedForNowSleepsAndAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		e.queues = false
		l := e.limiter(t, fairlimit.WithMaxWait(10*time.Second))
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(refused(4 * time.Second))
		again := <-e.calls
		assert.Equal(t, 4*time.Second, time.Since(start))
		assert.Equal(t, 6*time.Second, again.requests[0].MaxWait, "what is left of its patience")
		again.answers(refused(7 * time.Second))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		assert.Equal(t, 4*time.Second, time.Since(start))
	})
}
