package fairlimit_test

import (
	"context"
	"io"
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

type amounts = fairlimit.Amounts

// tokens is a queue of 60 calls and 1000 tokens a minute.
func tokens(t *testing.T, rdb *redis.Client, opts ...fairlimit.Option) *fairlimit.Queue {
	return queueOf(t, rdb, redistest.Name(t), fairlimit.PerMinute(60),
		append([]fairlimit.Option{fairlimit.WithUnit("tokens", fairlimit.PerMinute(1000))}, opts...)...)
}

func TestATurnWaitsForAllItsUnits(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, began := tokens(t, rdb), time.Now()
		first, err := q.Take(t.Context(), amounts{"tokens": 800})
		require.NoError(t, err)
		require.Equal(t, began, time.Now())
		s := status(t, q)
		require.Equal(t, 59, s.Available)
		require.Equal(t, map[string]fairlimit.UnitStatus{"tokens": {Available: 200}}, s.Units)

		reserved, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 300})
		require.NoError(t, err)
		require.Equal(t, time.Minute, reserved.Delay())
		require.ErrorIs(t, reserved.Settle(t.Context(), amounts{"tokens": 1}), fairlimit.ErrTurnAhead)

		// The first used 100 only: who asks now need not wait for its tokens, but
		// nobody overtakes.
		require.NoError(t, first.Settle(t.Context(), amounts{"tokens": 100}))
		require.Equal(t, time.Minute, status(t, q).Delay)
		require.NoError(t, reserved.Cancel(t.Context()))
		require.ErrorIs(t, reserved.Settle(t.Context(), amounts{}), fairlimit.ErrReservationOver)
		require.Equal(t, 900, status(t, q).Units["tokens"].Available)
		require.NoError(t, first.Settle(t.Context(), amounts{"tokens": 0}), "the second time nothing is done")
		require.Equal(t, 900, status(t, q).Units["tokens"].Available)

		// A debt stands in the line before those who ask later.
		second, err := q.Take(t.Context(), amounts{"tokens": 900})
		require.NoError(t, err)
		require.NoError(t, second.Settle(t.Context(), amounts{"tokens": 1100}))
		s = status(t, q)
		require.Equal(t, time.Minute, s.Delay)
		require.Equal(t, fairlimit.UnitStatus{Queued: 200}, s.Units["tokens"])
		require.NoError(t, q.Wait(t.Context()))
		require.Equal(t, began.Add(time.Minute), time.Now())
	})
}

func TestAReservationOfAmountsIsSettledAfterItsSlot(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := tokens(t, rdb)
		for _, waits := range []bool{false, true} {
			r, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 800})
			require.NoError(t, err)
			if waits {
				require.NoError(t, r.Wait(t.Context()))
			} else {
				time.Sleep(r.Delay())
			}
			require.Equal(t, 200, status(t, q).Units["tokens"].Available)
			require.NoError(t, r.Settle(t.Context(), amounts{"tokens": 10, "": 0}))
			require.NoError(t, r.Settle(t.Context(), amounts{"tokens": 900}), "once")
			require.NoError(t, r.Cancel(t.Context()))
			require.Equal(t, 990, status(t, q).Units["tokens"].Available)
			require.Equal(t, 60, status(t, q).Available)
			time.Sleep(2 * time.Minute)
			require.NoError(t, r.Settle(t.Context(), amounts{"tokens": 900}))
		}
	})
}

func TestWhatTheUpstreamSaysIsObserved(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := tokens(t, rdb)
		turn, err := q.Take(t.Context(), amounts{"tokens": 300})
		require.NoError(t, err)
		require.NoError(t, q.Observe(t.Context(), "tokens", 900))
		require.Equal(t, 700, status(t, q).Units["tokens"].Available, "more is left: nothing happens")
		require.NoError(t, q.Observe(t.Context(), "tokens", 200))
		require.NoError(t, q.Observe(t.Context(), "", 7))
		s := status(t, q)
		require.Equal(t, 200, s.Units["tokens"].Available)
		require.Equal(t, 7, s.Available)
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 0}))
		require.Equal(t, 500, status(t, q).Units["tokens"].Available, "no refund cancels it")
		require.ErrorIs(t, q.Observe(t.Context(), "points", 1), fairlimit.ErrUnknownUnit)
		require.ErrorIs(t, q.Observe(t.Context(), "tokens", -1), fairlimit.ErrInvalidAmounts)

		plain := queueOf(t, rdb, "plain", fairlimit.PerMinute(60))
		require.NoError(t, plain.Observe(t.Context(), "", 5))
		require.Equal(t, 5, status(t, plain).Available)
	})
}

func TestAQueueOfCallsTakesAndSettlesThem(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.PerMinute(3))
		for _, used := range []int{2, 0} {
			turn, err := q.Take(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, turn.Settle(t.Context(), amounts{"": used}))
			require.Equal(t, fairlimit.Status{Available: 1}, status(t, q))
		}
	})
}

func TestAmountsThatCanNeverBeTakenAreErrors(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := tokens(t, rdb)
		for _, c := range []struct {
			amounts amounts
			want    error
			about   string
		}{
			{amounts{"tokens": 1001}, fairlimit.ErrExceedsQuota, "1001 tokens"},
			{amounts{"": 61}, fairlimit.ErrExceedsQuota, "61"},
			{amounts{"points": 1}, fairlimit.ErrUnknownUnit, `"points"`},
			{amounts{"calls": 1}, fairlimit.ErrUnknownUnit, `want one of ["tokens"]; the unit of calls is ""`},
			{amounts{"tokens": -1}, fairlimit.ErrInvalidAmounts, "tokens"},
			{amounts{"": 0, "tokens": 0}, fairlimit.ErrInvalidAmounts, "nothing"},
		} {
			_, err := q.Take(t.Context(), c.amounts)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.about)
			_, err = q.ReserveAmounts(t.Context(), c.amounts)
			require.ErrorIs(t, err, c.want)
		}
		turn, err := q.Take(t.Context(), amounts{"": 0, "tokens": 5})
		require.NoError(t, err)
		require.ErrorIs(t, turn.Settle(t.Context(), amounts{"points": 1}), fairlimit.ErrUnknownUnit)
		for _, used := range []amounts{{"tokens": -1}, {"tokens": 1_000_001}, {"": 60_001}} {
			require.ErrorIs(t, turn.Settle(t.Context(), used), fairlimit.ErrInvalidAmounts)
		}
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 7}))
		require.Equal(t, 993, status(t, q).Units["tokens"].Available)
		var none context.Context
		_, err = q.Take(none, nil)
		require.ErrorIs(t, err, fairlimit.ErrNilContext)
		require.ErrorIs(t, turn.Settle(none, nil), fairlimit.ErrNilContext)
	})
}

// It goes by the quota that the limiter knows, stored or its own.
func TestADebtBeyondReasonIsRefusedWhereQuotasAreStored(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, "q", fairlimit.PerMinute(60), fairlimit.WithStoredQuota(),
			fairlimit.WithUnit("tokens", fairlimit.PerMinute(1000)))
		for _, fits := range []int{1000, 5000} {
			turn, err := q.Take(t.Context(), amounts{"tokens": fits})
			require.NoError(t, err)
			require.ErrorIs(t, turn.Settle(t.Context(), amounts{"tokens": 1000*fits + 1}), fairlimit.ErrInvalidAmounts)
			require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": fits + 1}))
			require.NoError(t, q.Reset(t.Context()))
			stored := "60/1m; tokens 5000/1m"
			require.NoError(t, rdb.Set(t.Context(), "fairlimit:{q}:quota", stored, 0).Err())
		}
	})
}

func TestARefundIsNeverBeyondReason(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, "q", fairlimit.PerMinute(60), fairlimit.WithStoredQuota(),
			fairlimit.WithUnit("tokens", fairlimit.PerMinute(5000)))
		turn, err := q.Take(t.Context(), amounts{"tokens": 5000})
		require.NoError(t, err)
		require.NoError(t, rdb.Set(t.Context(), "fairlimit:{q}:quota", "60/1m; tokens 1/1m", 0).Err())
		status(t, q)
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 4000}))
	})
}

func TestAReservationThatIsNotSettledYetStands(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := tokens(t, rdb)
		r, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 1000})
		require.NoError(t, err)
		require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": -1}), fairlimit.ErrInvalidAmounts)
		require.NoError(t, r.Cancel(t.Context()))
		require.Equal(t, 1000, status(t, q).Units["tokens"].Available)
		require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": 1}), fairlimit.ErrReservationOver)

		require.NoError(t, q.Wait(t.Context()))
		_, err = q.Take(t.Context(), amounts{"tokens": 1000})
		require.NoError(t, err)
		r, err = q.ReserveAmounts(t.Context(), amounts{"tokens": 1000})
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- r.Wait(ctx) }()
		synctest.Wait()
		require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": 1}), fairlimit.ErrTurnAhead)
		leave()
		require.ErrorIs(t, <-waited, context.Canceled)
		require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": 1}), fairlimit.ErrReservationOver)
	})
}

func TestTheGuardOfAUnitIsItsOwn(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := tokens(t, rdb, fairlimit.WithUnitGuard("tokens", 30*time.Second))
		_, err := q.Take(t.Context(), amounts{"tokens": 1000})
		require.NoError(t, err)
		r, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 1})
		require.NoError(t, err)
		require.Equal(t, 90*time.Second, r.Delay())
		refused, err := q.ReserveAmounts(t.Context(), amounts{"": 61})
		require.ErrorIs(t, err, fairlimit.ErrExceedsQuota)
		require.Nil(t, refused)
	})
}

// While Redis fails, FailOpen lets a turn go that there is nothing to settle of.
func TestATurnOfAFallbackNeedsNoSettlement(t *testing.T) {
	q, err := fairlimit.NewQueue(nowhere(t), "x", fairlimit.PerMinute(60),
		fairlimit.WithUnit("tokens", fairlimit.PerMinute(1000)), fairlimit.WithFallback(fairlimit.FailOpen))
	require.NoError(t, err)
	turn, err := q.Take(t.Context(), amounts{"tokens": 10})
	require.NoError(t, err)
	require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 1}))
}

// Settlements travel together.
func TestASettledTurnCostsFewQuestions(t *testing.T) {
	for callers, most := range map[int]float64{1: 2, 64: 0.1} {
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
			const each = 40
			questions := 0
			rdb.AddHook(late{by: time.Millisecond})
			q := queueOf(t, rdb, redistest.Name(t), fairlimit.PerMinute(1_000_000),
				fairlimit.WithUnit("tokens", fairlimit.PerMinute(100_000_000)),
				fairlimit.WithTrace(&fairlimit.Trace{Asked: func(string, int, time.Duration, error) { questions++ }}))
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for i := range each {
						turn, err := q.Take(t.Context(), amounts{"tokens": 500})
						if assert.NoError(t, err) {
							assert.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 25 * i}))
						}
					}
				})
			}
			wg.Wait()
			require.LessOrEqual(t, float64(questions)/float64(callers*each), most)
		})
	}
}

func TestATraceIsToldWhatWasSettled(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		told := map[string][2]int{}
		q := tokens(t, rdb, fairlimit.WithTrace(&fairlimit.Trace{
			Settled:   func(unit string, reserved, used int) { told[unit] = [2]int{reserved, used} },
			GivenBack: func(int, error) { t.Error("nothing was given back") },
		}))
		for _, used := range []int{5, 30, 20} {
			turn, err := q.Take(t.Context(), amounts{"tokens": 20})
			require.NoError(t, err)
			require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": used, "": 1}))
			require.Equal(t, map[string][2]int{"": {1, 1}, "tokens": {20, used}}, told)
			require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 1}))
			require.Equal(t, 20, told["tokens"][0])
			require.Equal(t, used, told["tokens"][1], "once")
		}
	})
}

// A settlement that Redis refused may be tried again. One whose answer was lost
// may have been booked, and is not sent twice.
func TestASettlementThatFailedMayBeTriedAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, o := tokens(t, rdb), &outage{}
		turn, err := q.Take(t.Context(), amounts{"tokens": 500})
		require.NoError(t, err)
		rdb.AddHook(o)
		o.is(saying("OOM command not allowed"), nil)
		require.Error(t, turn.Settle(t.Context(), amounts{"tokens": 100}))
		o.is(nil, io.EOF)
		require.ErrorIs(t, turn.Settle(t.Context(), amounts{"tokens": 100}), fairlimit.ErrOutcomeUnknown)
		o.is(nil, nil)
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 500}))
		require.Equal(t, 900, status(t, q).Units["tokens"].Available)
	})
}
