package upstream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/monotime"
	"github.com/fairlimit/fairlimit/bench/internal/upstream"
)

// arrive lets permits arrive at the given milliseconds and says which were
// admitted.
func arrive(ledger *upstream.Ledger, now *time.Duration, permits int, at ...int) (admitted []bool) {
	for _, ms := range at {
		*now = time.Duration(ms) * time.Millisecond
		admitted = append(admitted, ledger.Arrive(upstream.Arrival{Permits: permits}))
	}
	return admitted
}

func TestLedgerAdmitsTheQuotaInAnyWindow(t *testing.T) {
	var now time.Duration
	ledger := upstream.NewLedger(2, time.Second, func() time.Duration { return now })

	require.Equal(t, []bool{true, true, false, false, true, false, true},
		arrive(ledger, &now, 1, 0, 600, 601, 999, 1000, 1599, 1600),
		"the window is half-open: an arrival leaves it exactly one second later")
}

func TestLedgerDoesNotCountWhatItRejected(t *testing.T) {
	var now time.Duration
	ledger := upstream.NewLedger(1, time.Second, func() time.Duration { return now })

	require.Equal(t, []bool{true, false, true}, arrive(ledger, &now, 1, 0, 900, 1000))
	require.Len(t, ledger.Arrivals(), 3, "but it writes it down")
	require.True(t, ledger.Arrivals()[1].Rejected)
}

func TestLedgerCountsPermits(t *testing.T) {
	var now time.Duration
	ledger := upstream.NewLedger(5, time.Second, func() time.Duration { return now })

	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 3, 0, 1))
	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 2, 2, 3))
}

func TestAnOverrunUpstreamAnswers429AndSaysSo(t *testing.T) {
	ledger := upstream.NewLedger(3, time.Hour, monotime.Now)
	server, err := upstream.Serve(ledger)
	require.NoError(t, err)
	defer server.Close()
	visitor, err := upstream.NewVisitor(t.Context(), server.URL)
	require.NoError(t, err)
	require.Zero(t, ledger.Count(), "to say hello is no arrival")

	before := monotime.Now()
	for seq := range 5 {
		arrival := upstream.Arrival{Client: 7, Caller: 8, Seq: seq, Permits: 1, Called: 9}
		require.NoError(t, visitor.Visit(t.Context(), arrival))
	}

	rejected := 0
	for seq, a := range ledger.Arrivals() {
		if a.Rejected {
			rejected++
		}
		require.GreaterOrEqual(t, a.At, before)
		require.Equal(t, upstream.Arrival{
			Client: 7, Caller: 8, Seq: seq, Permits: 1, Called: 9, At: a.At, Rejected: seq >= 3,
		}, a)
	}
	require.Equal(t, 2, rejected)
}
