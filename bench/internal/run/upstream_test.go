package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

func TestAnOverrunUpstreamAnswers429AndSaysSo(t *testing.T) {
	ledger := measure.NewLedger(measure.Limits{Permits: 3, Per: time.Hour}, measure.Now)
	server := Serve(ledger)
	defer server.Close()
	visitor, err := NewVisitor(t.Context(), server.URL)
	require.NoError(t, err)
	require.Zero(t, ledger.Count(), "to say hello is no arrival")

	before := measure.Now()
	for seq := range 5 {
		arrival := measure.Call{Client: 7, Caller: 8, Seq: seq, Permits: 1, Called: 9}
		rejected, err := visitor(t.Context(), arrival)
		require.NoError(t, err)
		require.Equal(t, seq >= 3, rejected)
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
