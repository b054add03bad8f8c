package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
	"github.com/fairlimit/fairlimit/bench/internal/compare/upstream"
)

func TestTheUpstreamsAccountIsTheOneThatIsBelieved(t *testing.T) {
	const end = 1000 * time.Millisecond
	calls := join(
		[]metrics.Call{
			{Client: 1, Caller: 0, Seq: 1, Called: 20, Ended: 1100 * time.Millisecond, Outcome: metrics.Waiting},
			{Client: 1, Caller: 0, Seq: 0, Permits: 1, Called: 10, Ended: 15, Outcome: metrics.Granted},
		},
		[]upstream.Arrival{
			{Client: 1, Caller: 0, Seq: 0, Permits: 1, Called: 10, At: 17, Rejected: true},
			{Client: 2, Caller: 0, Seq: 0, Permits: 3, Called: 12, At: 18},
		}, end)

	require.Equal(t, []metrics.Call{
		{
			Client: 1, Permits: 1, Called: 10, Ended: 15, Outcome: metrics.Granted,
			Reached: true, Arrived: 17, Rejected: true,
		},
		// Its process died.
		{Client: 2, Permits: 3, Called: 12, Ended: 18, Outcome: metrics.Granted, Reached: true, Arrived: 18},
		{Client: 1, Seq: 1, Called: 20, Ended: end, Outcome: metrics.Waiting},
	}, calls)
}

func TestCallsThatFailedAreCounted(t *testing.T) {
	failed := metrics.Call{Outcome: metrics.Failed, Error: "no answer"}
	require.NoError(t, Failures([]metrics.Call{{}, {}}))
	require.EqualError(t, Failures([]metrics.Call{{}, failed}), "1 call failed with: no answer")
	require.EqualError(t, Failures([]metrics.Call{failed, {}, {Outcome: metrics.Failed}}),
		"2 calls failed, the first with: no answer")
}
