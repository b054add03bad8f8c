package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// figure is one of fair in a scenario.
func figure(all map[string]figures, scenario, figure string) float64 {
	return all[scenario].Engines[0][figure].(float64)
}

// With a narrow guard, a call on a busy machine could miss ten turns in a row.
func TestScenariosOnFair(t *testing.T) {
	t.Parallel()
	const patient = "steady,burst,greedy,trickle,weighted"
	p, runs := succeeds(t, "-engines", "fair",
		"-scenario", patient+",impatient,fickle,crash,laggy,onoff,few-3-every,tokens-75",
		"-quota", "10/200ms", "-guard", "100ms", "-duration", "1s", "-clients", "2")
	require.Len(t, runs, 12)
	all, incidents := map[string]figures{}, map[string]int{"crash": 1, "onoff": 4}
	for _, one := range runs {
		all[one.Scenario] = one
		require.Contains(t, p.said(), one.Scenario+":", "the table is where it does not disturb")
		require.Len(t, one.Engines, 1)
		require.Equal(t, "fair", one.Engines[0]["engine"])
		sane(t, one, one.Engines[0])
		happened, _ := one.Engines[0]["incidents"].([]any)
		require.Equal(t, incidents[one.Scenario] > 0, len(happened) > 0, one.Scenario)
		require.LessOrEqual(t, len(happened), incidents[one.Scenario], one.Scenario)
	}
	require.Contains(t, p.said(), "all scenarios\n")
	for _, scenario := range strings.Split(patient, ",") {
		require.NotNil(t, all[scenario].Goal, scenario)
		for _, trouble := range []string{"refused", "left", "failed"} {
			require.Zero(t, figure(all, scenario, trouble), scenario)
		}
	}
	require.Nil(t, all["few-3-every"].Goal, "fair+flows was not measured")
	require.Greater(t, figure(all, "steady", "utilization"), 0.0)
	require.LessOrEqual(t, all["steady"].ApartMS, 50.0, "a machine blurs no more")
	require.GreaterOrEqual(t, all["laggy"].ApartMS, 210.0, "what is held up comes on top")
	require.Greater(t, figure(all, "weighted", "permits"), figure(all, "weighted", "grants"))
	require.Greater(t, figure(all, "impatient", "refused"), 0.0)
	require.Greater(t, figure(all, "fickle", "left"), 0.0)
	require.Greater(t, figure(all, "onoff", "missed_turns"), 0.0, "its process slept through them")
	greedy := all["greedy"].Engines[0]["clients"].([]any)
	require.Equal(t, 50.0, greedy[0].(map[string]any)["callers"])
	require.Equal(t, 1.0, greedy[1].(map[string]any)["callers"])
	require.Contains(t, all["tokens-75"].Engines[0], "output")
}

// Order counts from the longest stall on: on a machine that stalls, those who
// overtake by more are rarer, and what has to be seen takes longer.
func TestAnEngineThatOvertakesIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, duration := range []string{"4s", "8s", "16s"} {
		_, all := succeeds(t, "-engines", "window", "-quota", "4/100ms", "-callers", "8", "-duration", duration)
		if all[0].Engines[0]["inversions"] != 0.0 {
			return
		}
	}
	require.Fail(t, "it was not found out")
}

func TestPhasesBeginWhenAClientIsKilledAndWhenTheQuotaChanges(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	_, runs := succeeds(t, "-scenario", "killed,changed,weighted", "-engines", "all", "-redis", server.Addr(),
		"-quota", "10/200ms", "-guard", "50ms", "-duration", "2s", "-clients", "2")
	happened := map[string][]string{}
	for _, one := range runs {
		for _, e := range one.Engines {
			name := one.Scenario + " " + e["engine"].(string)
			require.Greater(t, e["redis_us_per_grant"], 0.0, name)
			if one.Scenario == "weighted" {
				require.Greater(t, e["permits"], e["grants"], name)
				continue
			}
			for _, incident := range e["incidents"].([]any) {
				happened[name] = append(happened[name], incident.(map[string]any)["what"].(string))
			}
			phases := e["phases"].([]any)
			require.Len(t, phases, map[string]int{"killed": 2, "changed": 3}[one.Scenario], name)
			require.Greater(t, phases[0].(map[string]any)["first"], 0.0, name)
		}
	}
	const killed, anew = "the first client was killed", "the clients were restarted"
	require.Equal(t, map[string][]string{
		"killed fair":         {killed, "nobody did anything"},
		"killed window":       {killed, anew},
		"killed fair+flows":   {killed, "nobody did anything"},
		"killed redis_rate":   {killed, anew},
		"killed fair+requeue": {killed, "somebody requeued"},
		"changed fair":        {anew, anew},
		"changed window":      {"the rate was set to 20/200ms", "the rate was set to 5/200ms"},
		"changed fair+flows":  {anew, anew},
		"changed redis_rate":  {anew, anew},
		"changed fair+stored": {"the quota was set to 20/200ms", "the quota was set to 5/200ms"},
	}, happened)
}

func TestWhoLearnsTheQuotaIsTurnedAwayLess(t *testing.T) {
	t.Parallel()
	_, runs := succeeds(t, "-scenario", "learns", "-duration", "10s")
	rejections := map[string]float64{}
	for _, e := range runs[0].Engines {
		rejections[e["engine"].(string)] = e["phases"].([]any)[1].(map[string]any)["upstream_rejections"].(float64)
	}
	require.Less(t, rejections["fair+learn"], rejections["fair"])
}

func TestRedisIsAwayForHalfASecondInARestart(t *testing.T) {
	t.Parallel()
	_, all := succeeds(t, "-scenario", "restart", "-engines", "fair", "-quota", "10/200ms", "-duration", "3s")
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
