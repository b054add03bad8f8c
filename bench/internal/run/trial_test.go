package run

import (
	"context"
	"errors"
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

func TestCallsThatFailedAreCounted(t *testing.T) {
	failed := measure.Call{Outcome: measure.Failed, Error: "no answer"}
	require.NoError(t, failures([]measure.Call{{}, {}}))
	require.EqualError(t, failures([]measure.Call{failed, {}, {Outcome: measure.Failed}}),
		"failed calls: 2, the first with: no answer")
}

func TestOrderCountsFromTheLongestStallOn(t *testing.T) {
	for name, c := range map[string]struct {
		stalls   []time.Duration // one an engine
		scenario string
		want     time.Duration
	}{
		"a quiet machine": {[]time.Duration{0, 900 * time.Microsecond}, "steady", 10 * time.Millisecond},
		"one that stalls": {
			[]time.Duration{30200 * time.Microsecond, 4 * time.Millisecond}, "steady", 31 * time.Millisecond,
		},
		"one that hardly moves":    {[]time.Duration{4 * time.Second}, "steady", 100 * time.Millisecond},
		"what is held up, on top":  {[]time.Duration{12 * time.Millisecond}, "laggy", 212 * time.Millisecond},
		"held up, a quiet machine": {[]time.Duration{0}, "laggy", 210 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			behaviour, known := scenario.Named(c.scenario)
			require.True(t, known)
			var results []*Result
			for _, worst := range c.stalls {
				results = append(results, &Result{
					Trial: Trial{Scenario: behaviour, Load: scenario.Default}, WorstStall: worst,
				})
			}
			Judge(results)
			for _, r := range results {
				require.Equal(t, c.want, r.Apart, "all engines are held to one rule")
			}
		})
	}
}

func TestAnIncidentThatTheEndOverhauledIsNoFault(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	failed := errors.New("there is no such client")
	run := Trial{Load: scenario.Load{Duration: time.Second}, Scenario: scenario.Scenario{Incidents: []scenario.Incident{
		{What: scenario.Suspend}, {What: scenario.Resume}, {What: scenario.Kill},
	}}}
	happened, err := run.befall(ctx, measure.Now(), func(ctx context.Context, deed scenario.Deed) error {
		switch deed {
		case scenario.Resume:
			return failed
		case scenario.Kill:
			end()
		}
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, failed)
	require.NotErrorIs(t, err, context.Canceled)
	require.Len(t, happened, 1)
	require.EqualValues(t, scenario.Suspend, happened[0].What)
}

func TestAnOverrunUpstreamAnswers429AndSaysSo(t *testing.T) {
	ledger := measure.NewLedger(measure.Limits{Permits: 1, Per: time.Hour}, measure.Now)
	server := Serve(ledger)
	defer server.Close()
	visitor, err := NewVisitor(t.Context(), server.URL)
	require.NoError(t, err)
	require.Zero(t, ledger.Count(), "to say hello is no arrival")

	for seq := range 2 {
		call := measure.Call{Client: 7, Caller: 8, Seq: seq, Permits: 1, Called: 9}
		rejected, err := visitor(t.Context(), call)
		require.NoError(t, err)
		require.Equal(t, seq > 0, rejected)
		a := ledger.Arrivals()[seq]
		call.Reached, call.Arrived, call.Rejected = true, a.Arrived, rejected
		require.Equal(t, call, a)
	}
}
