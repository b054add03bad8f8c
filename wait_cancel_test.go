package fairlimit_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestManyWhoLeaveAtOnceLeaveNoDebt lets 200 waiters queue up and leave.
func TestManyWhoLeaveAtOnceLeaveNoDebt(t *testing.T) {
	const waiters = 200
	for name, limits := range map[string]struct {
		quota fairlimit.Quota
		opts  []fairlimit.Option
	}{
		"1 per second": {quota: fairlimit.Every(time.Second)},
		"1 per second and 1000 per day": {
			fairlimit.Every(time.Second),
			[]fairlimit.Option{fairlimit.WithExtraQuota(fairlimit.Quota{Permits: 1000, Per: 24 * time.Hour})},
		},
		"5 per second": {quota: fairlimit.PerSecond(5)},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
				l := limiter(t, rdb, limits.quota, limits.opts...)
				for range limits.quota.Permits {
					require.NoError(t, l.Wait(t.Context()))
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for range waiters {
					wg.Go(func() {
						err := l.Wait(ctx)
						assert.True(t, err == nil || ctx.Err() != nil, "%v", err)
					})
				}
				require.Eventually(t, func() bool { return status(t, l).Queued >= waiters/2 },
					10*time.Second, 5*time.Millisecond)
				cancel()
				wg.Wait()

				require.Eventually(t, func() bool { return status(t, l).Queued == 0 },
					10*time.Second, 5*time.Millisecond)
				start := time.Now()
				r, err := l.ReserveN(t.Context(), 1)
				require.NoError(t, err)
				assert.LessOrEqual(t, r.Slot().Sub(start), limits.quota.Per+time.Since(start),
					"the next waits one interval at most")
			})
		})
	}
}

func TestOneWhoLeavesInItsSleepFreesItsTurn(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.PerMinute(1))
		require.NoError(t, l.Wait(t.Context()))
		ctx, cancel := context.WithCancelCause(t.Context())
		left := make(chan error, 1)
		go func() { left <- l.Wait(ctx) }()
		require.Eventually(t, func() bool { return status(t, l).Queued == 1 }, 10*time.Second, time.Millisecond)

		cancel(assert.AnError)
		err := <-left
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, assert.AnError, "the cause is told as well")
		if !strings.HasSuffix(t.Name(), "/miniredis") { // Redis may take longer than the caller waits for it
			require.Eventually(t, func() bool { return status(t, l).Queued == 0 }, 10*time.Second, time.Millisecond)
		}
		assert.Zero(t, status(t, l).Queued, "its permit is back when it returns")
	})
}

func TestOneWhoLeavesDuringTheCallFreesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		errs := lineUp(ctx, l, 3, 3)
		c := <-e.calls
		require.ErrorIs(t, <-errs, context.DeadlineExceeded)
		assert.Equal(t, 1025*time.Millisecond, time.Since(start), "it waits 25 ms for the answer, and no longer")
		c.answers(granted(time.Hour, 3))
		synctest.Wait()
		require.Len(t, e.givenBack(), 1)
		assert.Equal(t, 3, e.givenBack()[0].N)
	})
}

// meanwhile is a ctx during whose inspection something happens.
type meanwhile struct {
	context.Context
	happens func()
}

func (m meanwhile) Done() <-chan struct{} {
	m.happens()
	return m.Context.Done()
}

func TestOneWhoLeavesAsTheAnswerComesFreesItsTurnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		for i := range 30 { // select picks one of two at random
			ctx, cancel := context.WithCancel(t.Context())
			answered := func() {
				synctest.Wait()
				select {
				case c := <-e.calls: // by now the caller is in line
					c.answers(granted(time.Hour, 1))
					synctest.Wait()
					cancel()
				default:
				}
			}
			require.ErrorIs(t, l.Wait(meanwhile{ctx, answered}), context.Canceled)
			require.Len(t, e.givenBack(), i+1)
		}
	})
}

// TestWhoeverIsCancelledConsumesOnceOrNothing cancels at every moment of a
// call, and counts.
func TestWhoeverIsCancelledConsumesOnceOrNothing(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.Every(time.Hour))
		require.NoError(t, l.Wait(t.Context()))
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
				assert.ErrorIs(t, l.Wait(ctx), context.Canceled)
			})
		}
		wg.Wait()
		require.Eventually(t, func() bool { return status(t, l).Queued == 0 }, 10*time.Second, time.Millisecond)
		assert.LessOrEqual(t, status(t, l).Delay, time.Hour)
	})
}

// TestManyCallsAtRandomLoseNothing mixes all that callers can do and looks
// whether the books balance.
func TestManyCallsAtRandomLoseNothing(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.Quota{Permits: 5, Per: time.Hour})
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				switch i % 3 {
				case 0:
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
					defer cancel()
					_ = l.WaitN(ctx, 1+i%5)
				case 1:
					_, err := l.AllowN(t.Context(), 1+i%5)
					assert.NoError(t, err)
				case 2:
					r, err := l.ReserveN(t.Context(), 1+i%5)
					if assert.NoError(t, err) && r.Delay() > 0 {
						assert.NoError(t, r.Cancel(t.Context()))
					}
				}
			})
		}
		wg.Wait()
		require.Eventually(t, func() bool { return status(t, l).Queued == 0 }, 10*time.Second, time.Millisecond)
		s := status(t, l)
		assert.LessOrEqual(t, s.Delay, time.Hour)
		assert.GreaterOrEqual(t, s.Available, 0)
	})
}

func TestDeadlinesShorterThanTheWayBurnNothing(t *testing.T) {
	t.Parallel()
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.PerMinute(60))
		rdb.AddHook(late{by: 30 * time.Millisecond})
		for range 20 {
			for _, patience := range []time.Duration{20 * time.Millisecond, 29 * time.Millisecond} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				require.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
				cancel()
			}
		}
		require.Eventually(t, func() bool { return status(t, l).Available == 60 }, 10*time.Second, 50*time.Millisecond)
	})
}
