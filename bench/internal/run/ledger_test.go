package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// arrive lets permits arrive at the given milliseconds and says which were
// admitted.
func arrive(ledger *Ledger, now *time.Duration, permits int, at ...int) (admitted []bool) {
	for _, ms := range at {
		*now = time.Duration(ms) * time.Millisecond
		c, _ := ledger.Arrive(measure.Call{Permits: permits})
		admitted = append(admitted, !c.Rejected)
	}
	return admitted
}

func TestLedgerAdmitsTheQuotaInAnyWindow(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(2, time.Second, func() time.Duration { return now })

	require.Equal(t, []bool{true, true, false, false, true, false, true},
		arrive(ledger, &now, 1, 0, 600, 601, 999, 1000, 1599, 1600),
		"the window is half-open: an arrival leaves it exactly one second later")
}

func TestLedgerDoesNotCountWhatItRejected(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(1, time.Second, func() time.Duration { return now })

	require.Equal(t, []bool{true, false, true}, arrive(ledger, &now, 1, 0, 900, 1000))
	require.Len(t, ledger.Arrivals(), 3, "but it writes it down")
	require.True(t, ledger.Arrivals()[1].Rejected)
}

func TestLedgerCountsPermits(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(5, time.Second, func() time.Duration { return now })

	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 3, 0, 1))
	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 2, 2, 3))
}

func TestAnOverrunUpstreamAnswers429AndSaysSo(t *testing.T) {
	ledger := NewLedger(3, time.Hour, measure.Now)
	server, err := Serve(ledger)
	require.NoError(t, err)
	defer server.Close()
	visitor, err := NewVisitor(t.Context(), server.URL)
	require.NoError(t, err)
	require.Zero(t, ledger.Count(), "to say hello is no arrival")

	before := measure.Now()
	for seq := range 5 {
		arrival := measure.Call{Client: 7, Caller: 8, Seq: seq, Permits: 1, Called: 9}
		closed, err := visitor.Visit(t.Context(), arrival)
		require.NoError(t, err)
		require.Zero(t, closed, "a quota does not say for how long")
	}

	rejected := 0
	for seq, a := range ledger.Arrivals() {
		if a.Rejected {
			rejected++
		}
		require.GreaterOrEqual(t, a.Arrived, before)
		require.Equal(t, measure.Call{
			Client: 7, Caller: 8, Seq: seq, Permits: 1, Called: 9,
			Reached: true, Arrived: a.Arrived, Rejected: seq >= 3,
		}, a)
	}
	require.Equal(t, 2, rejected)
}

func TestAClosedUpstreamSaysForHowLong(t *testing.T) {
	now := time.Second
	ledger := NewLedger(3, time.Hour, func() time.Duration { return now })
	server, err := Serve(ledger)
	require.NoError(t, err)
	defer server.Close()
	visitor, err := NewVisitor(t.Context(), server.URL)
	require.NoError(t, err)

	require.Equal(t, measure.Span{From: time.Second, To: 4 * time.Second}, ledger.Close(3*time.Second))
	now += 500 * time.Millisecond
	closed, err := visitor.Visit(t.Context(), measure.Call{Permits: 1})
	require.NoError(t, err)
	require.Equal(t, 2500*time.Millisecond, closed)
	require.True(t, ledger.Arrivals()[0].Closed)

	require.Equal(t, []bool{false, true}, arrive(ledger, &now, 3, 3999, 4000), "what was turned away took nothing")
}

func TestAQuotaThatChangesHoldsFromThenOn(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(2, time.Second, func() time.Duration { return now })
	require.Equal(t, []bool{true, true, false}, arrive(ledger, &now, 1, 0, 1, 2))
	ledger.Change(3, false)
	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 1, 3, 4), "what went before counts")
	ledger.Change(1, true)
	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 1, 5, 6), "it does not")
	ledger.Change(measure.Unlimited, false)
	require.Equal(t, []bool{true, true}, arrive(ledger, &now, 1, 7, 8))
	require.Equal(t, []measure.Era{
		{From: 2 * time.Millisecond, Permits: 3},
		{From: 4 * time.Millisecond, Permits: 1, Anew: true},
		{From: 6 * time.Millisecond, Permits: measure.Unlimited},
	}, ledger.Eras())
}
