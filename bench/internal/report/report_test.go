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

// results are of an engine that is told everything and of one that is told
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
			Given: e.Given(asked), Log: measure.Log{Begin: time.Second, End: 13 * time.Second},
			Figures: figures, RedisCalls: 100, CountedBy: "clients",
			Apart: 15 * time.Millisecond, WorstStall: 14500 * time.Microsecond,
		}
	}
	one := result(engines.Engine{Name: "queueing", Guards: true, Bursts: true}, measure.Figures{
		Grants: 200, Shares: []measure.Share{{Callers: 50}, {Callers: 1}, {Callers: 1}, {Callers: 1}},
		MaxInWindow: 20, Utilization: 0.999, Jain: 1, ShareMaxOverMin: &ratio,
	})
	other := result(engines.Engine{Name: "polling"}, measure.Figures{
		Grants: 190, Inversions: 77, UpstreamRejections: 4,
		MachineInversions: 5, MachineRejections: 1,
	})
	other.Faults = []string{"client 3 died"}
	other.Log.End = 8 * time.Second
	return []*run.Result{one, other}
}

// table is the report as a person reads it, and how to find a line of it.
func table(t *testing.T, r Report, all bool) (text string, line func(begins string) []string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, r.Table(&out, all))
	text = out.String()
	return text, func(begins string) []string {
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, begins) {
				return strings.Fields(strings.TrimPrefix(l, begins))
			}
		}
		t.Fatalf("no line %q in\n%s", begins, text)
		return nil
	}
}

func TestTheWholeTable(t *testing.T) {
	table, line := table(t, Of(results()), true)
	require.Contains(t, table, "4 processes, 53 callers · embedded · quota 20 per 1s")
	require.Equal(t, []string{"200", "190"}, line("grants")[:2])
	require.Equal(t, []string{"0", "77", "(+5)"}, line("inversions")[:3])
	require.Equal(t, []string{"0", "4", "(+1)"}, line("upstream 429s")[:3])
	require.Equal(t, []string{"1.25", "one", "got", "0"}, line("best / worst")[:4])
	require.Contains(t, table, "polling: ended after 7.0 of 12 s")
	require.Contains(t, table, "polling: cannot be given a -burst\n")
	require.Contains(t, table, "77 (+5), in the row inversions: 77, and 5 more that this machine made by stalling\n")
	require.Contains(t, table, "counted by the clients")
	require.Contains(t, table, "Exit status 1, because of polling (client 3 died).")
}

func TestOneScreenHasTheVerdictAndTheRowsThatMatterMost(t *testing.T) {
	of := results()
	of[0].Trial.Engine.Name = "fair"
	_, line := table(t, Of(of[:1]), false)
	for _, row := range []string{
		"grants", "inversions", "max overtake", "upstream 429s",
		"max in window", "utilization", "wait p99", "Redis calls",
	} {
		line(row)
	}
	for _, r := range of { // much went wrong
		f := &r.Figures
		f.Failed, r.WorstStall, r.Given.Quota.Burst = 26, 7*time.Second, 5
		f.UpstreamRejections, f.MachineRejections, f.Inversions, f.MachineInversions = 6, 6, 1234, 5678
		r.Log.End, r.Faults = 13*time.Second, nil
	}
	of[0].Figures.MissedTurns = 1
	of[0].Faults = []string{"failed calls: 26, the first with: outcome unknown, the permits may be consumed: i/o timeout"}
	table, _ := table(t, Of(of), false)
	require.LessOrEqual(t, strings.Count(table, "\n"), 25, "with the path of the page")
	require.NotContains(t, table, "Jain")
	require.Less(t, strings.Index(table, "Exit status 1"), strings.Index(table, "grants"), "the verdict comes first")
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Of(results()).JSON(&out))
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))

	require.Equal(t, 3.0, got["seed"])
	require.Equal(t, 14.5, got["stall_ms"])
	require.Equal(t, map[string]any{"permits": 20.0, "per_ms": 1000.0, "burst": 5.0, "guard_ms": 10.0}, got["quota"])
	queueing, polling := got["engines"].([]any)[0].(map[string]any), got["engines"].([]any)[1].(map[string]any)
	for _, name := range strings.Fields("grants refused inversions max_overtake upstream_rejections max_in_window " +
		"utilization jain longest_starved_ms wait_ms") {
		require.Contains(t, queueing, name)
	}
	require.Equal(t, 1.25, queueing["share_max_over_min"])
	require.Nil(t, polling["share_max_over_min"])
}

// fairly is a report on fair, after a change to its result.
func fairly(change func(*run.Result)) Report {
	of := results()[:1]
	of[0].Trial.Engine.Name = "fair"
	change(of[0])
	return Of(of)
}

// in is a scenario by its name.
func in(name string) scenario.Scenario {
	s, _ := scenario.Named(name)
	return s
}

// kept is what is said first of a fair that kept its promises.
const kept = "fair kept its promises: no turn out of order, none over the quota"

func TestTheOutcomeSaysWhatWasKeptOrByHowMuchItWasMissed(t *testing.T) {
	few := func(f *measure.Figures) { f.SmallestShare, f.Inversions = 0.48, 99 } // flows promise no order between them
	full := &measure.Output{Fullest: 1.05, AtMost: 1.3}
	const (
		missed = "fair MISSED its goal by "
		shared = "fair+flows kept its promises: none over the quota, and each flow has its share."
	)
	for _, c := range []struct {
		scenario string
		change   func(*measure.Figures)
		want     string
	}{
		{"steady", func(*measure.Figures) {}, kept + "."},
		{"steady", func(f *measure.Figures) { f.Failed = 26 }, kept + "; 26 of its calls failed."},
		{
			"steady", func(f *measure.Figures) { f.Inversions, f.UpstreamRejections, f.Failed = 1, 4, 1 },
			missed + "1 inversion and 4 upstream 429s; 1 of its calls failed.",
		},
		{"few-3-second", few, shared},
		{"few-3-second", func(f *measure.Figures) {
			f.SmallestShare, f.Utilization, f.UpstreamRejections = 0.2, 0.9, 1
		}, "fair+flows MISSED its goal by a share of 20.0 %, not 47.0 %, " +
			"a quota used to 90.0 %, not 97.0 % and 1 upstream 429."},
		{"few-3-second", func(f *measure.Figures) { // the machine missed what was not used
			f.SmallestShare, f.Utilization, f.Grants, f.MissedTurns = 0.48, 0.9, 90, 10
		}, shared},
		{
			"tokens-75", func(f *measure.Figures) { f.Utilization, f.Output, f.UpstreamRejections = 0.7, full, 1 },
			missed + "70.0 % of the output used, not 80.0 % and a window with 105.0 % of its output, not 102.0 %.",
		},
		{
			"tokens-most", func(f *measure.Figures) { f.Output, f.UpstreamRejections = &measure.Output{}, 1 },
			missed + "1 upstream 429.",
		},
	} {
		r := fairly(func(r *run.Result) {
			r.Trial.Scenario = in(c.scenario)
			if r.Trial.Scenario.Shares != nil {
				r.Trial.Engine.Name = "fair+flows"
			}
			c.change(&r.Figures)
		})
		require.Equal(t, c.want, r.Outcome())
		require.Equal(t, strings.Contains(c.want, "kept"), r.Goal.Met)
		require.Equal(t, !r.Goal.Met, len(r.Goal.Missed) > 0)
	}
}

func TestWhatTheMachineDidIsNamedAndNotHeldAgainstFair(t *testing.T) {
	r := fairly(func(r *run.Result) { r.Figures.MachineInversions, r.Figures.MachineRejections = 12, 1 })
	require.True(t, r.Goal.Met)
	require.Equal(t, []string{
		kept + ".",
		"This machine stalled for up to 15 ms. Pairs closer than 15 ms have no order.",
		"fair, by the machine: 12 pairs in the wrong order and 1 upstream 429.",
	}, r.Verdict()[:3])

	r = fairly(func(r *run.Result) { r.WorstStall = 100 * time.Millisecond })
	require.Equal(t, "This machine stalled for up to 100 ms. "+
		"Pairs closer than 15 ms have no order. "+
		"Longer stalls count for the calls that they hit.", r.Verdict()[1])
}

func TestWhoHasAGuardIsSaidAndWithoutOne429sDoNotCount(t *testing.T) {
	r := Of(results())
	require.Equal(t, []string{
		"Guard: queueing takes each window 10 ms longer, so that calls may be late on their way.",
		"No guard: polling. Calls that are late on their way then fill windows with more than 20.",
	}, r.guards())
	require.Equal(t, "queueing 19.8, polling 20 a second", r.allowed())
	r = fairly(func(r *run.Result) { r.Figures.UpstreamRejections, r.Given.Guard = 4, 0 })
	require.True(t, r.Goal.Met)
}

func TestWhereSomethingIsLostTheReportSaysWhat(t *testing.T) {
	crash, restart := in("crash"), in("restart")
	r := fairly(func(r *run.Result) {
		r.Trial.Scenario = crash
		r.Incidents = []run.Incident{{AtMS: 4800, What: "somebody died"}}
	})
	require.True(t, r.Goal.Met, "the living have their order")
	require.Contains(t, strings.Join(r.Verdict(), "\n"), crash.Shows)
	require.Contains(t, r.Remarks(), "fair: after 4.8 s, somebody died")

	r = fairly(func(r *run.Result) { r.Trial.Scenario, r.Figures.Inversions = restart, 3 })
	require.Nil(t, r.Goal)
	require.Contains(t, r.Outcome(), restart.Shows)
	require.Nil(t, Of(results()).Goal, "fair was not measured")
}

// summary is a page without a file.
func summary(reports ...Report) *Page {
	p := &Page{dir: "none"}
	p.reports = reports
	return p
}

func TestTheSummaryHasALineForEachScenarioAndEngine(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, summary(fairly(func(*run.Result) {}), Of(results())).Tell(&out))
	require.Equal(t, `
all scenarios

                    inversions   max overtake   upstream 429s   utilization   smallest share   starved   goal
steady   fair       0            0              0               99.9 %        –                0         met
steady   queueing   0            0              0               99.9 %        –                0         -
         polling    77 (+5)      0              4 (+1)          0.0 %         –                0         -
77 (+5), in the row inversions: 77, and 5 more that this machine made by stalling
`, out.String())
	out.Reset()
	require.NoError(t, summary().Tell(&out))
	require.Empty(t, out.String())
}
