package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

// arrive lets permits arrive at the given milliseconds and says which were
// admitted.
func arrive(ledger *Ledger, now *time.Duration, permits int, at ...int) (admitted []bool) {
	for _, ms := range at {
		*now = time.Duration(ms) * time.Millisecond
		c := ledger.Arrive(Call{Permits: permits})
		admitted = append(admitted, !c.Rejected)
	}
	return admitted
}

func TestLedgerAdmitsTheQuotaInAnyWindow(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(Limits{Permits: 2, Per: time.Second}, func() time.Duration { return now })

	require.Equal(t, []bool{true, true, false, false, true, false, true},
		arrive(ledger, &now, 1, 0, 600, 601, 999, 1000, 1599, 1600),
		"the window is half-open: an arrival leaves it exactly one second later")
}

func TestLedgerDoesNotCountWhatItRejected(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(Limits{Permits: 1, Per: time.Second}, func() time.Duration { return now })

	require.Equal(t, []bool{true, false, true}, arrive(ledger, &now, 1, 0, 900, 1000))
	require.Len(t, ledger.Arrivals(), 3, "but it writes it down")
	require.True(t, ledger.Arrivals()[1].Rejected)
}

func TestLedgerCountsPermits(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(Limits{Permits: 5, Per: time.Second}, func() time.Duration { return now })

	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 3, 0, 1))
	require.Equal(t, []bool{true, false}, arrive(ledger, &now, 2, 2, 3))
}

func TestACeilingIsThatOfOneClientAndStrict(t *testing.T) {
	now := time.Duration(0)
	ledger := NewLedger(Limits{Permits: 3, Per: time.Second}, func() time.Duration { return now })
	ledger.Ceiling = fairlimit.Quota{Permits: 2, Per: time.Second}
	arrive := func(at time.Duration, client int) bool {
		now = at
		return !ledger.Arrive(Call{Client: client, Permits: 1}).Rejected
	}
	require.True(t, arrive(0, 0))
	require.True(t, arrive(10*ms, 0))
	require.False(t, arrive(20*ms, 0), "its own ceiling")
	require.True(t, arrive(30*ms, 1))
	require.False(t, arrive(40*ms, 1), "the quota of all")
	require.False(t, arrive(999*ms, 0))
	require.True(t, arrive(time.Second, 0), "half open; those who were rejected took nothing")
}
