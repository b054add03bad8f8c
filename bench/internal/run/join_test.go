package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
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

func TestCallsThatFailedAreCounted(t *testing.T) {
	failed := measure.Call{Outcome: measure.Failed, Error: "no answer"}
	require.NoError(t, failures([]measure.Call{{}, {}}))
	require.EqualError(t, failures([]measure.Call{failed, {}, {Outcome: measure.Failed}}),
		"failed calls: 2, the first with: no answer")
}
