package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// results are of an engine that is told everything, and of one that is told
// nothing, and starves a client.
func results() []*run.Result {
	asked := scenario.Load{
		Quota: scenario.Quota{Permits: 20, Per: time.Second, Burst: 5}, Guard: 10 * time.Millisecond,
		Clients: 4, Callers: 1, Duration: 12 * time.Second, Seed: 3,
	}
	ratio := 1.25
	result := func(e engines.Engine, figures measure.Figures) *run.Result {
		return &run.Result{
			Trial: run.Trial{
				Scenario: scenario.All[0], Engine: e, Load: asked, Backend: &backend.Backend{Name: "embedded"},
			},
			Log:     measure.Log{Begin: time.Second, End: 13 * time.Second},
			Figures: figures, RedisCalls: 100,
			Apart: 15 * time.Millisecond, WorstStall: 14500 * time.Microsecond,
		}
	}
	one := result(engines.Engine{Name: "fair", Guards: true, Bursts: true}, measure.Figures{
		Grants: 200, Shares: []measure.Share{{Callers: 50}, {Callers: 1}, {Callers: 1}, {Callers: 1}},
		MaxInWindow: 20, Utilization: 0.999, Jain: 1, ShareMaxOverMin: &ratio,
	})
	one.RedisTime = 4 * time.Millisecond
	other := result(engines.Engine{Name: "polling"}, measure.Figures{
		Grants: 190, Inversions: 77, UpstreamRejections: 4,
		MachineInversions: 5, MachineRejections: 1,
	})
	other.Faults = []string{"client 3 died"}
	other.Log.End = 8 * time.Second
	return []*run.Result{one, other}
}

func TestATableHasTheVerdictFirstThenRowsPhasesAndIncidents(t *testing.T) {
	of := results()
	at, last := measure.MS(6*time.Second), measure.MS(1500*time.Millisecond)
	of[0].Figures.Phases = []measure.Phase{{Permits: 20}, {FromMS: at, Permits: 40, LastMS: &last}}
	of[1].Incidents = []run.Incident{{AtMS: at, What: "something happened"}}
	var all, screen bytes.Buffer
	require.NoError(t, Of(of).Table(&all, true))
	require.NoError(t, Of(of).Table(&screen, false))
	table := strings.Join(strings.Fields(all.String()), " ")
	for _, part := range []string{
		"processes 4, callers 53 · embedded · quota 20/1s burst 5", "fair kept its promises.",
		"Exit status 1, because of polling: client 3 died.",
		"This machine stalled for up to 14.5ms. Pairs closer than 15ms have no order.",
		"Guards: fair 10ms, polling 0s.", "fair polling grants 200 190", "inversions 0 77 (+5)", "upstream 429s 0 4 (+1)",
		"best / worst 1.25 one got 0", "Redis time 20 µs a", "(+n): and n more", "from 6s on, with a quota of 40",
		"last one 1.5s never", "polling: after 6s, something happened", "polling: ended after 7.0 of 12 s",
	} {
		at := strings.Index(table, part)
		require.GreaterOrEqual(t, at, 0, part)
		table = table[at:] // they are in this order
	}
	require.NotContains(t, screen.String(), "Jain")
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Of(results()).JSON(&out))
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, 3.0, got["seed"])
	require.Equal(t, 14.5, got["stall_ms"])
	require.Equal(t, map[string]any{"permits": 20.0, "per_ms": 1000.0, "burst": 5.0, "guard_ms": 10.0}, got["quota"])
	fair, polling := got["engines"].([]any)[0].(map[string]any), got["engines"].([]any)[1].(map[string]any)
	for _, name := range strings.Fields("grants refused inversions max_overtake upstream_rejections max_in_window " +
		"utilization jain longest_starved_ms wait_ms") {
		require.Contains(t, fair, name)
	}
	require.Equal(t, 1.25, fair["share_max_over_min"])
	require.Nil(t, polling["share_max_over_min"])
	require.Equal(t, 20.0, fair["redis_us_per_grant"])
	require.Nil(t, polling["redis_us_per_grant"])
}

func TestTheOutcomeSaysWhatWasKeptOrByHowMuchItWasMissed(t *testing.T) {
	full := &measure.Output{Fullest: 1.05, AtMost: 1.3}
	const missed, kept = " MISSED its goal: ", " kept its promises."
	for _, c := range []struct {
		scenario, engine string
		change           func(*measure.Figures)
		want             string
	}{
		{"steady", "fair", func(f *measure.Figures) { f.MachineInversions, f.MachineRejections = 12, 1 }, "fair" + kept},
		{"steady", "window", func(*measure.Figures) {}, "No verdict without fair."},
		{
			"steady", "fair", func(f *measure.Figures) { f.Inversions, f.UpstreamRejections, f.Failed = 1, 4, 1 },
			"fair" + missed + "inversions 1, upstream 429s 4.",
		},
		{"few-3-second", "fair+flows", func(f *measure.Figures) { // flows promise no order between them
			f.SmallestShare, f.Inversions = 0.48, 99
		}, "fair+flows" + kept},
		{"few-3-second", "fair+flows", func(f *measure.Figures) {
			f.SmallestShare, f.Utilization, f.UpstreamRejections = 0.2, 0.9, 1
		}, "fair+flows" + missed + "smallest share 20.0 %, not 47.0 %, quota used to 90.0 %, not 97.0 %, upstream 429s 1."},
		{"few-3-second", "fair+flows", func(f *measure.Figures) { // the machine missed what was not used
			f.SmallestShare, f.Utilization, f.Grants, f.MissedTurns = 0.48, 0.9, 90, 10
		}, "fair+flows" + kept},
		{
			"tokens-75", "fair", func(f *measure.Figures) { f.Utilization, f.Output, f.UpstreamRejections = 0.7, full, 1 },
			"fair" + missed + "output used to 70.0 %, not 80.0 %, a window with 105.0 % of its output, not 102.0 %.",
		},
		{
			"tokens-most", "fair", func(f *measure.Figures) { f.Output, f.UpstreamRejections = &measure.Output{}, 1 },
			"fair" + missed + "upstream 429s 1.",
		},
		{"changed", "fair", func(f *measure.Figures) { f.UpstreamRejections = 1 }, "No verdict. This shows when"},
	} {
		of := results()[:1]
		of[0].Trial.Scenario = scenario.Named(c.scenario)
		of[0].Trial.Engine.Name = c.engine
		c.change(&of[0].Figures)
		r := Of(of)
		require.Contains(t, r.Outcome(), c.want)
		require.Equal(t, strings.Contains(c.want, kept), r.Goal != nil && r.Goal.Met)
	}
	of := results()[:1]
	of[0].Figures.UpstreamRejections, of[0].Trial.Load.Guard = 4, 0
	require.True(t, Of(of).Goal.Met, "without a guard 429s do not count")
}
