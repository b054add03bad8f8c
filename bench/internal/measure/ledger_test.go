package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestALedgerIsStrictForAllAndForEachClient(t *testing.T) {
	type arrival struct{ at, client, permits int }
	ceiling := fairlimit.Quota{Permits: 2, Per: time.Second}
	for name, c := range map[string]struct {
		limits   Limits
		arrivals []arrival
		want     []bool
	}{
		"half open: an arrival leaves the window exactly one second later": {
			Limits{Permits: 2, Per: time.Second},
			[]arrival{{0, 0, 1}, {600, 0, 1}, {601, 0, 1}, {999, 0, 1}, {1000, 0, 1}, {1599, 0, 1}, {1600, 0, 1}},
			[]bool{true, true, false, false, true, false, true},
		},
		"permits count": {
			Limits{Permits: 5, Per: time.Second},
			[]arrival{{0, 0, 3}, {1, 0, 3}, {2, 0, 2}, {3, 0, 1}}, []bool{true, false, true, false},
		},
		"a ceiling": {
			Limits{Permits: 3, Per: time.Second, Ceiling: ceiling},
			[]arrival{{0, 0, 1}, {10, 0, 1}, {20, 0, 1}, {30, 1, 1}, {40, 1, 1}, {999, 0, 1}, {1000, 0, 1}},
			[]bool{true, true, false, true, false, false, true},
		},
	} {
		var now time.Duration
		ledger := NewLedger(c.limits, func() time.Duration { return now })
		var admitted []bool
		for _, a := range c.arrivals {
			now = time.Duration(a.at) * ms
			admitted = append(admitted, !ledger.Arrive(Call{Client: a.client, Permits: a.permits}).Rejected)
		}
		require.Equal(t, c.want, admitted, name)
		require.Len(t, ledger.Arrivals(), len(c.want), "it writes down what it rejected")
	}
}
