package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

func TestTheUpstreamsAccountIsTheOneThatIsBelieved(t *testing.T) {
	const end = 1000 * time.Millisecond
	calls := join(
		[]measure.Call{
			{Client: 1, Caller: 0, Seq: 1, Called: 20, Ended: 1100 * time.Millisecond, Outcome: measure.Waiting},
			{Client: 1, Caller: 0, Seq: 0, Permits: 1, Called: 10, Ended: 15, Outcome: measure.Granted},
		},
		[]measure.Call{
			{Client: 1, Caller: 0, Seq: 0, Permits: 1, Called: 10, Arrived: 17, Rejected: true},
			{Client: 2, Caller: 0, Seq: 0, Permits: 3, Called: 12, Arrived: 18},
		}, end)

	require.Equal(t, []measure.Call{
		{
			Client: 1, Permits: 1, Called: 10, Ended: 15, Outcome: measure.Granted,
			Reached: true, Arrived: 17, Rejected: true,
		},
		// Its process died.
		{Client: 2, Permits: 3, Called: 12, Ended: 18, Outcome: measure.Granted, Reached: true, Arrived: 18},
		{Client: 1, Seq: 1, Called: 20, Ended: end, Outcome: measure.Waiting},
	}, calls)
}

func TestOrderCountsFromTheLongestStallOnForAllEngines(t *testing.T) {
	for _, c := range []struct {
		scenario    string
		stall, want time.Duration
	}{
		{"steady", 900 * time.Microsecond, 10 * time.Millisecond},
		{"steady", 30200 * time.Microsecond, 30200 * time.Microsecond},
		{"steady", 4 * time.Second, 100 * time.Millisecond}, // one that hardly moves
		{"laggy", 12 * time.Millisecond, 212 * time.Millisecond},
	} {
		behaviour := scenario.Named(c.scenario)
		of := Trial{Scenario: behaviour, Load: scenario.Default}
		results := []*Result{{Trial: of, WorstStall: c.stall}, {Trial: of}}
		Judge(results)
		for _, r := range results {
			require.Equal(t, c.want, r.Apart)
		}
	}
}
