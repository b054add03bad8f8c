package report_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/report"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/bench/internal/trial"
)

// fairly is a report on fair, after a change to its result.
func fairly(change func(*trial.Result)) report.Report {
	of := results()[:1]
	of[0].Trial.Engine.Name = "fair"
	*of[0].Figures.SpreadMS = 5
	change(of[0])
	return report.Of(of)
}

func TestAGoalIsMetOrSaysByHowMuchItWasMissed(t *testing.T) {
	met := fairly(func(*trial.Result) {})
	require.True(t, met.Goal.Met)
	require.Contains(t, met.Outcome(), ": met")

	promised := 1
	missed := fairly(func(r *trial.Result) {
		*r.Figures.Early, r.Figures.Inversions, r.Figures.UpstreamRejections = 2, 3, 4
		r.Figures.PromisedInversions = &promised
	})
	require.False(t, missed.Goal.Met)
	require.Contains(t, missed.Outcome(), "missed by 2 early and "+
		"3 inversions (1 in the answers that it gave, the others on the way) and 4 upstream 429s")
}

func TestAGuardThatIsTooSmallExcusesTheUpstreams429s(t *testing.T) {
	r := fairly(func(r *trial.Result) { r.Figures.UpstreamRejections, *r.Figures.SpreadMS = 4, 10 })
	require.True(t, r.Goal.Met)
	require.Contains(t, r.Outcome(), "met; not covered: 4 upstream 429s: delays spread over 10 ms, the guard was 10 ms")
}

func TestThereIsNoGoalWhereNobodyCanReachIt(t *testing.T) {
	crash, _ := scenario.Named("crash")
	r := fairly(func(r *trial.Result) {
		r.Trial.Scenario, r.Figures.Inversions = crash, 3
		r.Incidents = []trial.Incident{{AtMS: 4800, What: "somebody died"}}
	})
	require.Nil(t, r.Goal)
	require.Contains(t, r.Outcome(), crash.Shows)
	require.Contains(t, r.Remarks(), "fair: somebody died after 4.8 s")
	require.Nil(t, report.Of(results()).Goal, "fair was not measured")
}

func TestTheSummaryHasALineForEachScenarioAndEngine(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report.Summary(&out, []report.Report{fairly(func(*trial.Result) {}), report.Of(results())}))
	require.Equal(t, `
all scenarios

                    inversions   overtake   429s   used     starved   early   goal
steady   fair       0            0          0      99.9 %   0         0       met
steady   queueing   0            0          0      99.9 %   0         0       -
         polling    77           0          4      0.0 %    0         -       -
`, out.String())
	out.Reset()
	require.NoError(t, report.Summary(&out, nil))
	require.Empty(t, out.String())
}
