package fairlimit_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

type amounts = fairlimit.Amounts

var thousandTokens = fairlimit.WithUnit("tokens", fairlimit.PerMinute(1000))

// tokens is a queue of 60 calls and 1000 tokens a minute.
func tokens(t *testing.T, server *redistest.MiniServer, opts ...fairlimit.Option) *fairlimit.Queue {
	t.Helper()
	return queueOf(t, server.Client, "q", fairlimit.PerMinute(60), append(opts, thousandTokens)...)
}

func take(t *testing.T, q *fairlimit.Queue, a amounts) *fairlimit.Turn {
	t.Helper()
	turn, err := q.Take(t.Context(), a)
	require.NoError(t, err)
	return turn
}

// left is how many tokens are available.
func left(t *testing.T, q *fairlimit.Queue) int { return status(t, q).Units["tokens"].Available }

func TestWhatATurnDidNotUseGoesToWhoAsksLater(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		told := map[string][2]int{}
		q := tokens(t, server, fairlimit.WithTrace(&fairlimit.Trace{
			Settled: func(unit string, reserved, used int) { told[unit] = [2]int{reserved, used} },
		}))
		turn := take(t, q, amounts{"tokens": 800})
		require.Equal(t, 59, status(t, q).Available)
		require.Equal(t, 200, left(t, q))
		r, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 300})
		require.NoError(t, err)
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 100}))
		require.Equal(t, time.Minute, r.Delay(), "turns that are held stay where they are")
		require.NoError(t, r.Cancel(t.Context()))
		require.Equal(t, 900, left(t, q))
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 0}))
		require.Equal(t, 900, left(t, q), "a turn is settled once")
		require.Equal(t, map[string][2]int{"tokens": {800, 100}}, told)
		require.Equal(t, 59, status(t, q).Available, "what is not named stays")
	})
}

func TestAReservationIsSettledOnceItsSlotHasCome(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := tokens(t, server)
		for _, waits := range []bool{false, true} {
			take(t, q, amounts{"tokens": 1000})
			r, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 800})
			require.NoError(t, err)
			require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": 1}), fairlimit.ErrTurnAhead)
			if waits {
				waited := background(func() error { return r.Wait(t.Context()) })
				require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": 1}), fairlimit.ErrTurnAhead)
				require.NoError(t, <-waited)
			} else {
				time.Sleep(r.Delay())
			}
			require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": -1}), fairlimit.ErrInvalidAmounts)
			require.NoError(t, r.Settle(t.Context(), amounts{"tokens": 10, "": 0}))
			require.NoError(t, r.Settle(t.Context(), amounts{"tokens": 900}), "once")
			require.NoError(t, r.Cancel(t.Context()))
			require.Equal(t, 990, left(t, q))
			require.Equal(t, 60, status(t, q).Available)
			require.NoError(t, q.Reset(t.Context()))
		}
		r, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 1})
		require.NoError(t, err)
		require.NoError(t, r.Cancel(t.Context()))
		require.ErrorIs(t, r.Settle(t.Context(), amounts{"tokens": 1}), fairlimit.ErrReservationOver)
	})
}

func TestAmountsThatCanNeverBeTakenAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := tokens(t, server)
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
		turn := take(t, q, amounts{"": 0, "tokens": 5})
		require.ErrorIs(t, turn.Settle(t.Context(), amounts{"points": 1}), fairlimit.ErrUnknownUnit)
		for _, used := range []amounts{{"tokens": -1}, {"tokens": 1_000_000_001}} {
			require.ErrorIs(t, turn.Settle(t.Context(), used), fairlimit.ErrInvalidAmounts)
		}
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 7}))
		require.Equal(t, 993, left(t, q))
	})
}

// One whose answer was lost may have been booked, and is not sent twice.
func TestASettlementThatFailedMayBeTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.PerMinute(60), thousandTokens)
		turn := take(t, q, amounts{"tokens": 500})
		w.is(traffic{before: saying("OOM command not allowed")})
		require.ErrorContains(t, turn.Settle(t.Context(), amounts{"tokens": 100}), "OOM")
		w.is(traffic{after: io.EOF})
		require.ErrorIs(t, turn.Settle(t.Context(), amounts{"tokens": 100}), fairlimit.ErrOutcomeUnknown)
		w.is(traffic{})
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 0}))
		require.Equal(t, 900, left(t, q))
	})
}
