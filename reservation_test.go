package fairlimit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAReservationTellsWhenToGo(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(10*time.Second))
		first, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		assert.Zero(t, first.Delay())
		second, err := l.ReserveN(within(t, time.Second), 1)
		require.NoError(t, err, "a deadline bounds the call and not the turn")
		assert.Equal(t, 10*time.Second, second.Delay())
		assert.Equal(t, 10*time.Second, second.Slot().Sub(first.Slot()))

		time.Sleep(4 * time.Second)
		assert.Equal(t, 1, status(t, l).Queued, "a ctx that ends later takes nothing back")
		assert.Equal(t, 6*time.Second, second.Delay())
		time.Sleep(7 * time.Second)
		assert.Zero(t, second.Delay())
	})
}

func TestAReservationIsCancelledOnce(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.Quota{Permits: 2, Per: time.Hour})
		require.NoError(t, l.WaitN(t.Context(), 2))
		cancelled, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		_, err = l.ReserveN(t.Context(), 1) // of the same moment
		require.NoError(t, err)

		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { assert.NoError(t, cancelled.Cancel(t.Context())) })
		}
		wg.Wait()
		assert.NoError(t, cancelled.Cancel(t.Context()))
		assert.Equal(t, 1, status(t, l).Queued, "the other keeps its turn")
	})
}

func TestALateCancelChangesNothing(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Hour))
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, r.Cancel(t.Context()))
		allowed, err := l.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed, "a turn that has come may have been used")
	})
}

func TestWhatIsDueAtOnceCanBeGivenBackAtOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		one, other := limiter(t, rdb, fairlimit.Every(time.Hour)), limiter(t, rdb, fairlimit.Every(time.Hour))
		require.NoError(t, other.Wait(t.Context()))
		first, err := one.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		second, err := other.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		require.NotZero(t, second.Delay(), "not both at once: so neither")
		require.NoError(t, first.Cancel(t.Context()))
		require.NoError(t, second.Cancel(t.Context()))
		allowed, err := one.Allow(t.Context())
		require.NoError(t, err)
		assert.True(t, allowed, "nobody went with it")
	})
}

func TestACancelThatDidNotHappenMayBeTriedAgain(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name := redistest.Name(t)
		l := named(t, rdb, name, fairlimit.Every(time.Hour))
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.Cancel(ended), context.Canceled)
		assert.Equal(t, 1, status(t, l).Queued)

		key := limitertest.Key(name)
		state, err := rdb.Get(t.Context(), key).Result()
		require.NoError(t, err)
		require.NoError(t, rdb.Del(t.Context(), key).Err())
		require.NoError(t, rdb.LPush(t.Context(), key, "another's").Err())
		require.ErrorIs(t, r.Cancel(t.Context()), fairlimit.ErrState)

		require.NoError(t, rdb.Set(t.Context(), key, state, 3*time.Hour).Err())
		require.NoError(t, r.Cancel(t.Context()))
		assert.Zero(t, status(t, l).Queued)
	})
}

// The limiter heard of the reset before the reservation's Wait began, and
// nobody tells it then.
func TestAReservationWhoseQueueWasResetBeforeItsWaitLinesUpAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Every(10 * time.Second)
		q, admin := queueOf(t, rdb, name, quota), queueOf(t, rdb, name, quota)
		start := time.Now()
		require.NoError(t, q.Wait(t.Context()))
		turn, err := q.ReserveN(t.Context(), 1) // at 10 s
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, admin.Reset(t.Context()))
		require.NoError(t, q.Wait(t.Context())) // at 1 s; q hears of the reset
		require.NoError(t, turn.Wait(t.Context()))
		assert.InDelta(t, 11, time.Since(start).Seconds(), 0.1, "ten seconds after the other")
	})
}

// The wait that its answer told is out of date.
func TestAReservationIsRefusedForWhatIsKnownByNow(t *testing.T) {
	for _, isReset := range []bool{false, true} {
		t.Run(fmt.Sprint("reset: ", isReset), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				q := queueOf(t, rdb, "q", fairlimit.Every(10*time.Second))
				require.NoError(t, q.Wait(t.Context()))
				require.NoError(t, q.Pause(t.Context(), 20*time.Second))
				r, err := q.ReserveN(t.Context(), 1) // at 30 s
				require.NoError(t, err)
				if isReset {
					require.NoError(t, q.Reset(t.Context()))
				} else {
					time.Sleep(25 * time.Second)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = r.Wait(ctx)
				if isReset {
					require.NoError(t, err)
				} else {
					require.ErrorAs(t, err, new(*fairlimit.RefusedError))
					require.NotErrorIs(t, err, fairlimit.ErrPaused)
				}
			})
		})
	}
}

func TestAReservationWaits(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := named(t, rdb, redistest.Name(t), fairlimit.Every(10*time.Second)).(*fairlimit.Queue)
		start := time.Now()
		first, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		second, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, first.Wait(t.Context()))
		require.ErrorIs(t, first.Wait(t.Context()), fairlimit.ErrReservationOver)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		require.NoError(t, second.Wait(t.Context()))
		assert.InDelta(t, float64(40*time.Second), float64(time.Since(start)), float64(20*time.Millisecond))

		third, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		errs := make(chan error, 1)
		go func() { errs <- third.Wait(t.Context()) }()
		time.Sleep(time.Second)
		require.NoError(t, third.Cancel(t.Context()))
		require.ErrorIs(t, <-errs, fairlimit.ErrReservationOver)
		require.NoError(t, third.Cancel(t.Context()))
		assert.Zero(t, status(t, q).Queued)

		fourth, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		ctx := within(t, time.Second)
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, fourth.Wait(ctx), &refused)
		assert.Zero(t, status(t, q).Queued, "it was given back")
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

// The Cancel comes when the Wait has begun and nothing can end it yet: that is
// when the Wait makes a ctx of its own from the caller's.
func TestACancelEndsAWaitThatIsJustBeginning(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Hour))
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		start := time.Now()
		looks, cancelled := 0, make(chan error, 1)
		begins := meanwhile{t.Context(), func() {
			if looks++; looks == 1 {
				go func() { cancelled <- r.Cancel(context.Background()) }()
				synctest.Wait()
			}
		}}
		require.ErrorIs(t, r.Wait(begins), fairlimit.ErrReservationOver)
		require.NoError(t, <-cancelled)
		assert.Zero(t, time.Since(start))
		assert.Zero(t, status(t, l).Queued)
	})
}

// The pause puts off the turn, so that it lies ahead when its first slot is over.
func TestACancelEndsAWaitInAPause(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.Every(10*time.Second))
		require.NoError(t, q.Wait(t.Context()))
		r, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		errs := make(chan error, 1)
		go func() { errs <- r.Wait(t.Context()) }()
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		time.Sleep(30 * time.Second)
		require.NoError(t, r.Cancel(t.Context()))
		require.ErrorIs(t, <-errs, fairlimit.ErrReservationOver)
		assert.Zero(t, status(t, q).Queued)
	})
}

// The Wait has missed its turn, because of a pause that Redis did not record, and
// its question for another is under way when it is cancelled.
func TestACancelEndsAWaitThatIsBeingGrantedAnotherTurn(t *testing.T) {
	for what, answers := range map[string]bool{"the answer comes": true, "no answer comes": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, q := newSteered(t)
				s.fails = fairlimit.ErrUnreachable
				go func() { (<-s.calls).answers(granted(5*time.Second, 1)) }()
				r, err := q.ReserveN(t.Context(), 1)
				require.NoError(t, err)
				errs, cancelled := make(chan error, 1), make(chan error, 1)
				go func() { errs <- r.Wait(t.Context()) }()
				require.Error(t, q.Pause(t.Context(), time.Minute))
				again := <-s.calls
				synctest.Wait()
				require.Len(t, s.givenBack(), 1, "the turn that it missed")

				go func() { cancelled <- r.Cancel(t.Context()) }()
				synctest.Wait()
				if answers {
					again.answers(granted(time.Hour, 1))
				}
				require.NoError(t, <-cancelled)
				require.ErrorIs(t, <-errs, fairlimit.ErrReservationOver)
				if !answers {
					again.answers(granted(time.Hour, 1))
				}
				synctest.Wait()
				require.Len(t, s.givenBack(), 2)
				assert.EqualValues(t, time.Hour, s.givenBack()[1].At)
				require.NoError(t, r.Cancel(t.Context()))
				require.Len(t, s.givenBack(), 2, "once")
			})
		})
	}
}
