package report

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// write makes a page of two scenarios, simulated or not.
func write(t *testing.T, simulated bool) (dir, html string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "made", "on the way")
	p, err := In(dir)
	require.NoError(t, err)
	result := &run.Result{Simulated: simulated, Trial: run.Trial{Engine: engines.Engine{Name: "fair"}}, Log: measure.Log{
		End: 2 * time.Second, Callers: []int{1}, Calls: []measure.Call{{
			Permits: 1, Ended: time.Second, Reached: true, Arrived: time.Second, Outcome: measure.Granted,
		}},
	}}
	for _, name := range []string{"steady", "burst"} {
		require.NoError(t, p.Add(Report{
			Scenario: name, Backend: "embedded", Simulated: simulated, Clients: 1, Callers: 1, Seconds: 2, ApartMS: 10,
			Goal: &Goal{Met: true},
			Engines: []Engine{{
				Name: "fair", Seconds: 2, Faults: []string{"<fault> & all"},
				Figures: measure.Figures{Grants: 4711, UpstreamRejections: 6, MachineRejections: 7},
			}},
		}, []*run.Result{result}))
	}
	content, err := os.ReadFile(p.path())
	require.NoError(t, err)
	return dir, string(content)
}

func TestThePageNeedsNothingButItself(t *testing.T) {
	_, html := write(t, false)
	html = regexp.MustCompile(`xmlns(:\w+)?="[^"]*"`).ReplaceAllString(html, "") // names, not addresses
	require.NotRegexp(t, regexp.MustCompile(`(?i)https?:|\bsrc=|<link|<script|@import|url\(|href="[^#]`), html)
}

func TestThePageHasTheSummaryAndOfEachScenarioTheTableAndThePictures(t *testing.T) {
	dir, html := write(t, false)
	require.Equal(t, 4, strings.Count(html, "<svg"))
	after := 0
	for _, part := range []string{
		"all scenarios", "6 (&#43;7)",
		`id="steady"`, "fair kept its promises: ", "&lt;fault&gt; &amp; all", "This machine stalled", "4711", "<svg",
		`id="burst"`, "4711", "<svg",
	} {
		at := strings.Index(html[after:], part)
		require.GreaterOrEqual(t, at, 0, part)
		after += at
	}
	require.NotContains(t, html, "imulation")
	for _, name := range []string{
		"steady-fair-waits.svg", "burst-fair-gains.svg",
	} {
		picture, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(picture, []byte("<svg")))
	}
}

func TestASimulationIsCalledOneWhereverItsFiguresStand(t *testing.T) {
	_, html := write(t, true)
	require.Equal(t, 1+2, strings.Count(html, "SIMULATION"), "the summary and the tables")
	require.Equal(t, 2*2, strings.Count(html, "simulation"), "the pictures")
}
