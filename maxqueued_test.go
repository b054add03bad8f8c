package fairlimit_test

import (
	"context"
	"math/rand/v2"
	"sync"
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

// room fails the test unless exactly n permits fit the limiter. What it asks
// for is granted an hour ahead.
func room(t *testing.T, e *stub, l fairlimit.Limiter, n int) {
	t.Helper()
	require.ErrorIs(t, l.WaitN(t.Context(), n+1), fairlimit.ErrTooManyQueued)
	if n == 0 {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- l.WaitN(ctx, n) }()
	synctest.Wait()
	select {
	case c := <-e.calls:
		c.answers(granted(time.Hour, n))
	default:
		cancel()
		t.Fatalf("no room for %d", n)
	}
	synctest.Wait()
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
}

func TestWhoWaitsCountsFromItsCallToItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t, fairlimit.WithMaxQueued(6))
		errs := lineUp(t.Context(), l, 1, 3)
		start := time.Now()
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued, "three have no answer")
		assert.Zero(t, time.Since(start))

		(<-e.calls).answers(granted(time.Minute, 1))
		next := <-e.calls
		assert.Equal(t, []int{2, 3}, next.permits(), "nothing was asked for the one who was refused")
		next.answers(granted(2*time.Minute, 2), granted(3*time.Minute, 3))
		synctest.Wait()
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued,
			"all are granted, and their turns are to come")

		require.NoError(t, <-errs)
		room(t, e, l, 1)
		require.NoError(t, <-errs)
		room(t, e, l, 3)
		require.NoError(t, <-errs)
		room(t, e, l, 6)
	})
}

func TestWhoLeavesOrIsTurnedAwayCountsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t, fairlimit.WithMaxQueued(2))
		r := l.(fairlimit.Reserver)
		for _, ask := range calls(r) {
			for _, ends := range []func(c *call, leave func()){
				func(c *call, _ func()) { c.fails(assert.AnError) },
				func(c *call, _ func()) { c.answers(refused(time.Hour)) },
				func(c *call, leave func()) {
					leave()
					synctest.Wait()
					c.answers(granted(time.Hour, c.requests[0].N))
				},
			} {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- ask(ctx) }()
				synctest.Wait()
				select {
				case c := <-e.calls:
					ends(c, cancel)
				default: // it asks no engine for permits
				}
				<-done
				cancel()
				synctest.Wait()
				room(t, e, l, 2)
			}
		}
	})
}

func TestAReservationCountsUntilItsSlot(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(10*time.Second), fairlimit.WithMaxQueued(2))
		reserve := func() error {
			_, err := l.ReserveN(t.Context(), 1)
			return err
		}
		require.NoError(t, reserve(), "due at once")
		require.NoError(t, reserve())
		require.NoError(t, reserve())
		for range 3 {
			require.ErrorIs(t, reserve(), fairlimit.ErrTooManyQueued)
		}
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued)
		assert.Equal(t, 2, status(t, l).Queued, "nothing was consumed")

		time.Sleep(10*time.Second - time.Nanosecond)
		require.ErrorIs(t, reserve(), fairlimit.ErrTooManyQueued)
		time.Sleep(time.Nanosecond)
		require.NoError(t, reserve())
		require.ErrorIs(t, reserve(), fairlimit.ErrTooManyQueued)
		time.Sleep(time.Hour)
		require.NoError(t, reserve())
		require.NoError(t, reserve())
	})
}

func TestReservationsPassInTheOrderOfTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t, fairlimit.WithMaxQueued(3))
		for _, wait := range []time.Duration{20, 10, 30} {
			go func() { (<-e.calls).answers(granted(wait*time.Second, 1)) }()
			_, err := l.(fairlimit.Reserver).ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		for n := range 4 {
			room(t, e, l, n)
			time.Sleep(10 * time.Second)
		}
	})
}

func TestACancelledReservationCountsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t, fairlimit.WithMaxQueued(6))
		var all []*fairlimit.Reservation
		for n := 1; n <= 3; n++ {
			go func() { (<-e.calls).answers(granted(time.Minute, n)) }() // all at one moment
			r, err := l.(fairlimit.Reserver).ReserveN(t.Context(), n)
			require.NoError(t, err)
			all = append(all, r)
		}
		room(t, e, l, 0)
		for range 3 {
			require.NoError(t, all[1].Cancel(t.Context()))
			room(t, e, l, 2)
		}
		require.NoError(t, all[2].Cancel(t.Context()))
		room(t, e, l, 5)
		time.Sleep(time.Minute)
		require.NoError(t, all[0].Cancel(t.Context()), "too late")
		room(t, e, l, 6)
	})
}

func TestACancelWithoutAnAnswerKeepsItsReservationCounted(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Minute), fairlimit.WithMaxQueued(1))
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		rdb.AddHook(late{by: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, r.Cancel(ctx), fairlimit.ErrOutcomeUnknown)
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued)
		time.Sleep(time.Minute)
		require.NoError(t, l.Wait(t.Context()))
	})
}

func TestMoreThanTheBoundNeverFits(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.PerHour(10), fairlimit.WithMaxQueued(3))
		err := l.WaitN(t.Context(), 4)
		require.ErrorIs(t, err, fairlimit.ErrTooManyQueued)
		assert.Contains(t, err.Error(), "at most 3")
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		var refused *fairlimit.RefusedError
		assert.NotErrorAs(t, err, &refused)
		_, err = l.ReserveN(t.Context(), 4)
		require.ErrorIs(t, err, fairlimit.ErrTooManyQueued)
		assert.Equal(t, fairlimit.Status{Available: 10}, status(t, l))

		allowed, err := l.AllowN(t.Context(), 4)
		require.NoError(t, err)
		assert.True(t, allowed, "it never queues")
		require.NoError(t, l.WaitN(t.Context(), 3))
	})
}

func TestAllowIsNotBound(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Minute), fairlimit.WithMaxQueued(1))
		require.NoError(t, l.Wait(t.Context()))
		_, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		allowed, err := l.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
	})
}

func TestOnWindowThoseWhoWaitAreBound(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Minute), fairlimit.WithEngine(window.New),
			fairlimit.WithMaxQueued(2))
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { assert.NoError(t, l.Wait(t.Context())) })
		}
		synctest.Wait()
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued)
		wg.Wait()
		require.NoError(t, l.Wait(t.Context()))
	})
}

func TestABoundOfNoneIsNoBound(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Minute), fairlimit.WithMaxQueued(1), fairlimit.WithMaxQueued(0))
		for range 5 {
			_, err := l.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
	})
	_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithMaxQueued(-1))
	require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
}

// TestTheBoundHoldsUnderLoad holds what Redis says is queued against the bound,
// and looks whether all of it is free in the end.
func TestTheBoundHoldsUnderLoad(t *testing.T) {
	t.Parallel()
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		const most = 20
		l := limiter(t, rdb, fairlimit.Quota{Permits: most, Per: 40 * time.Millisecond}, fairlimit.WithMaxQueued(most))
		ctx, stop := context.WithCancel(t.Context())
		var watching, calling sync.WaitGroup
		watching.Go(func() {
			for ctx.Err() == nil {
				assert.LessOrEqual(t, status(t, l).Queued, most)
				time.Sleep(time.Millisecond)
			}
		})
		var tooMany, went int
		var mu sync.Mutex
		for i := range 60 {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			calling.Go(func() {
				for range 20 {
					var err error
					if n := 1 + random.IntN(2); i%2 == 0 {
						err = l.WaitN(t.Context(), n)
					} else {
						var r *fairlimit.Reservation
						if r, err = l.ReserveN(t.Context(), n); err == nil && i%4 == 1 {
							assert.NoError(t, r.Cancel(t.Context()))
						}
					}
					mu.Lock()
					if err == nil {
						went++
					} else if assert.ErrorIs(t, err, fairlimit.ErrTooManyQueued) {
						tooMany++
					}
					mu.Unlock()
					time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
				}
			})
		}
		calling.Wait()
		stop()
		watching.Wait()
		assert.NotZero(t, tooMany)
		assert.NotZero(t, went)
		assert.Eventually(t, func() bool { return l.WaitN(t.Context(), most) == nil },
			10*time.Second, 5*time.Millisecond)
	})
}
