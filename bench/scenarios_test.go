package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// every runs so many scenarios for a second each on fair, and returns them by
// name. With a narrow guard, a call on a busy machine could miss ten turns in
// a row.
func every(t *testing.T, scenarios string, count int) map[string]figures {
	t.Helper()
	p, runs := succeeds(t, nil, "-scenario", scenarios, "-engines", "fair",
		"-quota", "10/200ms", "-guard", "100ms", "-duration", "1s", "-clients", "2")
	all := map[string]figures{}
	for _, one := range runs {
		all[one.Scenario] = one
		require.Contains(t, p.stderr.String(), one.Scenario+":", "the table is where it does not disturb")
		require.Len(t, one.Engines, 1)
		require.Equal(t, "fair", one.Engines[0]["engine"])
		sane(t, one, one.Engines[0])
	}
	require.Len(t, all, count)
	require.Contains(t, p.stderr.String(), "all scenarios\n")
	return all
}

// figure is one of fair in a scenario.
func figure(all map[string]figures, scenario, figure string) float64 {
	return all[scenario].Engines[0][figure].(float64)
}

func TestScenariosOnFair(t *testing.T) {
	t.Parallel()
	all := every(t, "steady,burst,greedy,trickle,weighted,impatient,fickle", 7)
	for scenario, one := range all {
		require.NotContains(t, one.Engines[0], "incidents", scenario)
		require.NotNil(t, one.Goal, scenario)
	}
	require.Greater(t, figure(all, "steady", "utilization"), 0.0)
	require.Greater(t, figure(all, "weighted", "permits"), figure(all, "weighted", "grants"))
	require.Greater(t, figure(all, "impatient", "refused"), 0.0)
	require.Greater(t, figure(all, "fickle", "left"), 0.0)
	for _, patient := range []string{"steady", "burst", "greedy", "trickle", "weighted"} {
		for _, trouble := range []string{"refused", "left", "failed"} {
			require.Zero(t, figure(all, patient, trouble), patient)
		}
	}
	greedy := all["greedy"].Engines[0]["clients"].([]any)
	require.Equal(t, 50.0, greedy[0].(map[string]any)["callers"])
	require.Equal(t, 1.0, greedy[1].(map[string]any)["callers"])
	require.LessOrEqual(t, all["steady"].ApartMS, 50.0, "a machine blurs no more")
}

func TestScenariosOnFairInWhichSomethingHappensOrFlowsAndTokensCount(t *testing.T) {
	t.Parallel()
	all := every(t, "crash,laggy,onoff,few-3-every,tenants,tokens-75", 6)
	require.GreaterOrEqual(t, all["laggy"].ApartMS, 210.0, "what is held up comes on top")
	require.Greater(t, figure(all, "onoff", "missed_turns"), 0.0, "its process slept through them")
	incidents := map[string]int{"crash": 1, "onoff": 4}
	for scenario, one := range all {
		happened, _ := one.Engines[0]["incidents"].([]any)
		require.Equal(t, incidents[scenario] > 0, len(happened) > 0, scenario)
		require.LessOrEqual(t, len(happened), incidents[scenario], scenario)
	}
	for scenario, judged := range map[string]bool{
		"crash": true, "onoff": true, "few-3-every": false, "tenants": false, "tokens-75": true,
	} {
		require.Equal(t, judged, all[scenario].Goal != nil, scenario)
	}
	require.Contains(t, all["tokens-75"].Engines[0], "output")
}

func TestRedisIsAwayForHalfASecondInARestart(t *testing.T) {
	t.Parallel()
	_ = redistest.Standalone(t) // skips where there is no Redis
	_, all := succeeds(t, nil, "-scenario", "restart", "-engines", "fair", "-quota", "10/200ms", "-duration", "3s")
	fair := all[0].Engines[0]
	require.Nil(t, all[0].Goal)
	require.NotEqual(t, "embedded", all[0].Backend)
	back := fair["incidents"].([]any)[0].(map[string]any)["at_ms"]
	require.GreaterOrEqual(t, back, 1500.0+500, "half of the run, and half a second")
}

// sane holds what any engine does in any scenario to what can be.
func sane(t *testing.T, one figures, e map[string]any) {
	t.Helper()
	require.Equal(t, "embedded", one.Backend)
	require.Greater(t, e["grants"], 0.0, one.Scenario)
	require.Less(t, e["grants"], 110.0, one.Scenario)
	require.Greater(t, e["max_in_window"], 0.0, one.Scenario)
	require.Greater(t, e["redis_calls_per_grant"], 0.0, one.Scenario)
	require.InDelta(t, 0.75, e["jain"], 0.25+1e-9, one.Scenario)
}
