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
	early, ratio, spread, wide := 0, 1.25, measure.MS(14.5), measure.MS(20.5)
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
	one := result(engines.Engine{Name: "queueing", Queues: true, Guards: true, Bursts: true}, measure.Figures{
		Grants: 200, Shares: []measure.Share{{Callers: 1}, {Callers: 1}, {Callers: 1}, {Callers: 1}},
		MaxInWindow: 20, Utilization: 0.999, Jain: 1, ShareMaxOverMin: &ratio, Early: &early,
		LatenessMS: &measure.Quantiles{P50: 0.6, P99: 1.2, Max: 2}, SpreadMS: &spread,
	})
	other := result(engines.Engine{Name: "polling"}, measure.Figures{
		Grants: 190, Inversions: 77, UpstreamRejections: 4, SpreadMS: &wide,
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
	require.Contains(t, table, "4 processes, 4 callers · embedded · quota 20 per 1s")
	require.Equal(t, []string{"200", "190"}, line("grants")[:2])
	require.Equal(t, []string{"0", "77", "(+5)"}, line("inversions")[:3])
	require.Equal(t, []string{"0", "4", "(+1)"}, line("upstream 429s")[:3])
	require.Equal(t, []string{"1.25", "one", "got", "0"}, line("best / worst")[:4])
	require.Equal(t, []string{"0", "–"}, line("early")[:2], "an engine that promises no turn breaks none")
	require.Contains(t, table, "polling: ended after 7.0 of 12 s")
	require.Contains(t, table, "polling: cannot be given a -burst\n")
	require.Contains(t, table, "   6 (+12): 6, and 12 more by the machine\n")
	require.Contains(t, table, "counted by the clients")
}

func TestOneScreenHasTheVerdictAndEightRows(t *testing.T) {
	r := Of(results()[:1])
	table, line := table(t, r, false)
	require.LessOrEqual(t, strings.Count(table, "\n"), 22, "with the path of the page, 25")
	for _, row := range []string{
		"grants", "inversions", "max overtake", "upstream 429s",
		"max in window", "utilization", "wait p99", "Redis calls",
	} {
		line(row)
	}
	require.NotContains(t, table, "Jain")
	require.NotContains(t, table, "(+", "no legend where there is nothing to explain")
	require.Less(t, strings.Index(table, "This machine"), strings.Index(table, "grants"), "the verdict comes first")
}

func TestOneScreenHoldsARunInWhichMuchWentWrong(t *testing.T) {
	of := results()
	of[0].Trial.Engine.Name = "fair"
	for _, r := range of {
		f := &r.Figures
		f.Failed, r.WorstStall, r.Given.Quota.Burst = 26, 7*time.Second, 5
		f.UpstreamRejections, f.MachineRejections, f.Inversions, f.MachineInversions = 6, 6, 1234, 5678
		r.Log.End = 13 * time.Second
	}
	of[0].Figures.MissedTurns = 1
	of[0].Faults = []string{
		"26 calls failed, the first with: outcome unknown, the permits may be consumed: i/o timeout",
	}
	of[1].Faults = nil
	r := Of(of)
	table, _ := table(t, r, false)
	require.LessOrEqual(t, strings.Count(table, "\n"), 23, "with the path of the page, 25")
	require.Less(t, strings.Index(table, "Exit status 1"), strings.Index(table, "grants"))
}

func TestCallersAreCountedWhereClientsDiffer(t *testing.T) {
	of := results()[:1]
	of[0].Figures.Shares = []measure.Share{{Callers: 50}, {Callers: 1}, {Callers: 1}, {Callers: 1}}
	var out bytes.Buffer
	require.NoError(t, Of(of).Table(&out, false))
	require.Contains(t, out.String(), "4 processes, 53 callers · embedded")
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Of(results()).JSON(&out))
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))

	require.Equal(t, "steady", got["scenario"])
	require.Equal(t, "embedded", got["backend"])
	require.Equal(t, false, got["simulated"])
	require.Equal(t, 3.0, got["seed"])
	require.Equal(t, map[string]any{"permits": 20.0, "per_ms": 1000.0, "burst": 5.0, "guard_ms": 10.0}, got["quota"])
	require.Equal(t, 4.0, got["clients"])
	require.Equal(t, 1.0, got["callers"])
	require.Equal(t, 12.0, got["seconds"])

	queueing, polling := got["engines"].([]any)[0].(map[string]any), got["engines"].([]any)[1].(map[string]any)
	require.Equal(t, "queueing", queueing["engine"])
	require.Equal(t, 10.0, queueing["guard_ms"])
	require.Equal(t, 1.25, queueing["share_max_over_min"])
	require.Equal(t, map[string]any{"p50": 0.6, "p99": 1.2, "max": 2.0}, queueing["lateness_ms"])
	require.Equal(t, 0.5, queueing["redis_calls_per_grant"])
	require.Equal(t, 0.0, polling["guard_ms"])
	require.Equal(t, 5.0, polling["machine_inversions"])
	require.Equal(t, 14.5, got["stall_ms"])
	require.Nil(t, polling["share_max_over_min"])
	require.NotContains(t, polling, "early")
}
