package fairlimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

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

func TestAQuotaIsText(t *testing.T) {
	quota := fairlimit.Quota{Permits: 100, Per: 2 * time.Minute, Burst: 10}
	assert.Equal(t, "100/2m burst 10", quota.String())
	parsed, err := fairlimit.ParseQuota("100/2m burst 10")
	require.NoError(t, err)
	assert.Equal(t, quota, parsed)
	_, err = fairlimit.ParseQuota("20/1s 3/1m")
	require.ErrorIs(t, err, fairlimit.ErrInvalidQuota)
}

// room fails the test unless exactly n permits fit the limiter. What it asks
// for is granted an hour ahead.
func room(t *testing.T, e *stub, l fairlimit.Limiter, n int) {
	t.Helper()
	synctest.Wait() // slots that have come are counted no longer
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
		synctest.Wait()
		require.NoError(t, reserve())
		require.ErrorIs(t, reserve(), fairlimit.ErrTooManyQueued)
		time.Sleep(time.Hour)
		require.NoError(t, reserve())
		require.NoError(t, reserve())
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

		for _, due := range []time.Duration{time.Minute, 0} {
			go func() { (<-e.calls).answers(granted(due, 1)) }()
			r, err := l.(fairlimit.Reserver).ReserveN(t.Context(), 1)
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			go func() { (<-e.calls).answers(granted(time.Minute, 1)) }()
			_, err = l.(fairlimit.Reserver).ReserveN(t.Context(), 1)
			require.NoError(t, err)
			room(t, e, l, 5)
			time.Sleep(time.Minute)
		}
	})
}

func TestACancelWithoutAnAnswerKeepsItsReservationCounted(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Minute), fairlimit.WithMaxQueued(1))
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		rdb.AddHook(late{by: time.Second})
		ctx := within(t, time.Millisecond)
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

func TestAGuardIsTakenWhereNoneIsGiven(t *testing.T) {
	const ms = time.Millisecond
	fifth := fairlimit.WithExtraQuota(fairlimit.Quota{Permits: 9, Per: 200 * ms})
	for name, c := range map[string]struct {
		per  time.Duration
		opts []fairlimit.Option
		want time.Duration // from one turn to the next
	}{
		"long":                {time.Minute, nil, time.Minute + 50*ms},
		"short":               {200 * ms, nil, 210 * ms},
		"tiny":                {19 * time.Microsecond, nil, 19 * time.Microsecond},
		"the shortest of two": {time.Minute, []fairlimit.Option{fifth}, time.Minute + 10*ms},
		"one is given":        {time.Minute, []fairlimit.Option{fairlimit.WithGuard(ms)}, time.Minute + ms},
		"it is none":          {time.Minute, []fairlimit.Option{fairlimit.WithGuard(0)}, time.Minute},
		"in a flow":           {time.Minute, []fairlimit.Option{fairlimit.WithFlow("a", 1)}, time.Minute + 50*ms},
		"a stored quota":      {time.Hour, []fairlimit.Option{fairlimit.WithStoredQuota()}, 105 * ms},
	} {
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
			q, err := fairlimit.NewQueue(rdb, "n", fairlimit.Every(c.per), c.opts...)
			require.NoError(t, err)
			require.NoError(t, q.SetQuotas(t.Context(), fairlimit.Every(100*ms)))
			var turn *fairlimit.Reservation
			for range 2 {
				turn, err = q.ReserveN(t.Context(), 1)
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, turn.Delay(), name)
		})
	}
}
