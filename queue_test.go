package fairlimit_test

import (
	"context"
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

func TestEachCallerIsHeldToAllQuotas(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.PerSecond(2), fairlimit.WithExtraQuota(fairlimit.PerMinute(3)),
			fairlimit.WithExtraQuota(fairlimit.PerHour(5)))
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

func TestMoreThanABurstExceedsTheQuota(t *testing.T) {
	l, err := fairlimit.New(nowhere(t), "n", fairlimit.Quota{Permits: 10, Per: time.Second, Burst: 2})
	require.NoError(t, err)
	require.ErrorIs(t, l.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
}

func TestAQuotaIsText(t *testing.T) {
	for text, quota := range map[string]fairlimit.Quota{
		"20/1s":            fairlimit.PerSecond(20),
		"100/2m burst 10":  {Permits: 100, Per: 2 * time.Minute, Burst: 10},
		"1/1h30m":          fairlimit.Every(90 * time.Minute),
		"3/500ms":          {Permits: 3, Per: 500 * time.Millisecond},
		"1000000/24h":      {Permits: 1_000_000, Per: 24 * time.Hour},
		"1/1.5s":           fairlimit.Every(1500 * time.Millisecond),
		"60/1m burst 1":    {Permits: 60, Per: time.Minute, Burst: 1},
		"9/1h0m1s burst 9": {Permits: 9, Per: time.Hour + time.Second, Burst: 9},
	} {
		got, err := fairlimit.ParseQuota(text)
		require.NoError(t, err, text)
		assert.Equal(t, quota, got, text)
		again, err := fairlimit.ParseQuota(quota.String())
		require.NoError(t, err, quota)
		assert.Equal(t, quota, again)
	}
	assert.Equal(t, "100/2m burst 10", fairlimit.Quota{Permits: 100, Per: 2 * time.Minute, Burst: 10}.String())
	assert.Equal(t, "20/1s", fairlimit.PerSecond(20).String())
	for _, text := range []string{
		"", "20", "20/", "/1s", "20/1s 3/1m", "0/1s", "3/0s", "3/-1s", "3/1s burst", "3/1s burst 4", "x/1s",
	} {
		_, err := fairlimit.ParseQuota(text)
		require.ErrorIs(t, err, fairlimit.ErrInvalidQuota, text)
	}
}

// No later turn may come sooner than one that was told before.
func TestAReservationComesAfterThoseThatWereSlowedDown(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		wide, narrow := fairlimit.Every(100*time.Millisecond), fairlimit.Every(250*time.Millisecond)
		q := queueOf(t, rdb, redistest.Name(t), wide, fairlimit.WithStoredQuota())
		require.NoError(t, q.SetQuotas(t.Context(), wide))
		last := time.Time{}
		reserve := func() {
			r, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			assert.True(t, r.Slot().After(last.Add(99*time.Millisecond)), "%v before", last.Sub(r.Slot()))
			last = r.Slot()
		}
		for range 21 {
			reserve()
		}
		require.NoError(t, q.SetQuotas(t.Context(), narrow))
		reserve()
		time.Sleep(time.Second)
		require.NoError(t, q.SetQuotas(t.Context(), wide))
		reserve()
	})
}

// The turns that were told before the quotas changed are far apart still when
// those come that were granted after it.
func TestAQuotaThatIsWideAgainMovesNobody(t *testing.T) {
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
		late.all.Wait()
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

// A turn that was slowed down for a narrower quota, or granted on it, keeps that
// quota as it is the next time.
func TestAQuotaThatChangesBackAndForthSlowsNobodyTwice(t *testing.T) {
	slow, quick := fairlimit.Every(time.Second), fairlimit.Every(200*time.Millisecond)
	for name, c := range map[string]struct {
		stored, other fairlimit.Quota
		callers       int
	}{
		"wide before":   {quick, slow, 10},
		"narrow before": {slow, quick, 20},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				q := queueOf(t, rdb, redistest.Name(t), c.stored, fairlimit.WithStoredQuota(),
					fairlimit.WithPauseWithin(10*time.Millisecond))
				require.NoError(t, q.SetQuotas(t.Context(), c.stored))
				start := time.Now()
				var g goers
				g.wait(t, q, 0, c.callers)
				for range 4 {
					require.NoError(t, q.SetQuotas(t.Context(), c.other))
					time.Sleep(100 * time.Millisecond)
					require.NoError(t, q.SetQuotas(t.Context(), c.stored))
				}
				g.all.Wait()
				assert.Less(t, time.Since(start), 20*time.Second)
			})
		})
	}
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

// delayOf is how long the second of two turns comes after the first.
func delayOf(t *testing.T, q *fairlimit.Queue) time.Duration {
	t.Helper()
	for range 2 {
		_, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	status, err := q.Status(t.Context())
	require.NoError(t, err)
	return status.Delay / 2
}

func TestAGuardIsTakenWhereNoneIsGiven(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		made := func(q *fairlimit.Queue, err error) *fairlimit.Queue {
			require.NoError(t, err)
			return q
		}
		stored := made(fairlimit.Open(rdb, "stored", fairlimit.WithStoredQuota()))
		require.NoError(t, stored.SetQuotas(t.Context(), fairlimit.Every(100*time.Millisecond)))
		const ms = time.Millisecond
		for name, c := range map[string]struct {
			queue *fairlimit.Queue
			want  time.Duration
		}{
			"long":   {made(fairlimit.NewQueue(rdb, "long", fairlimit.Every(time.Minute))), time.Minute + 50*time.Millisecond},
			"short":  {made(fairlimit.NewQueue(rdb, "short", fairlimit.Every(200*ms))), 210 * ms},
			"none":   {made(fairlimit.NewQueue(rdb, "none", fairlimit.Every(time.Second), fairlimit.WithGuard(0))), time.Second},
			"stored": {stored, 105 * time.Millisecond},
			"tiny":   {made(fairlimit.NewQueue(rdb, "tiny", fairlimit.Every(19*time.Microsecond))), 19 * time.Microsecond},
			"the shortest of two": {made(fairlimit.NewQueue(rdb, "two", fairlimit.Every(time.Minute),
				fairlimit.WithExtraQuota(fairlimit.Quota{Permits: 9, Per: time.Second / 5}))), time.Minute + 10*time.Millisecond},
			"flow": {
				made(fairlimit.NewQueue(rdb, "flow", fairlimit.Every(time.Second), fairlimit.WithFlow("a", 1))),
				time.Second + 50*time.Millisecond,
			},
		} {
			require.Equal(t, c.want, delayOf(t, c.queue), name)
		}
	})
}

func TestWindowHasNoGuard(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l, err := fairlimit.New(rdb, "n", fairlimit.PerSecond(1), fairlimit.WithEngine(window.New))
		require.NoError(t, err)
		began := time.Now()
		for range 3 {
			require.NoError(t, l.Wait(t.Context()))
		}
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}
