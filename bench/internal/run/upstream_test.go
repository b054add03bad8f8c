package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

func TestAnOverrunUpstreamAnswers429AndSaysSo(t *testing.T) {
	ledger := measure.NewLedger(3, time.Hour, measure.Now)
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
	ledger := measure.NewLedger(3, time.Hour, func() time.Duration { return now })
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

	for at, rejected := range map[time.Duration]bool{3999 * time.Millisecond: true, 4000 * time.Millisecond: false} {
		now = at
		c, _ := ledger.Arrive(measure.Call{Permits: 3})
		require.Equal(t, rejected, c.Rejected, "what was turned away took nothing")
	}
}
