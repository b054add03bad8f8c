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
func write(t *testing.T, command string, simulated bool) (dir, html string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "made", "on the way")
	p, err := In(dir, command)
	require.NoError(t, err)
	result := &run.Result{Trial: run.Trial{Engine: engines.Engine{Name: "fair"}}, Log: measure.Log{
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
	content, err := os.ReadFile(p.Path())
	require.NoError(t, err)
	return dir, string(content)
}

func TestThePageNeedsNothingButItself(t *testing.T) {
	_, html := write(t, "go run ./bench", false)
	html = regexp.MustCompile(`xmlns(:\w+)?="[^"]*"`).ReplaceAllString(html, "") // names, not addresses
	require.NotRegexp(t, regexp.MustCompile(`(?i)https?:|\bsrc=|<link|<script|@import|url\(|href="[^#]`), html)
}

func TestThePageHasTheTableAndThePictures(t *testing.T) {
	dir, html := write(t, "go run ./bench -scenario '<all>'", false)
	require.Contains(t, html, "go run ./bench -scenario &#39;&lt;all&gt;&#39;")
	require.Equal(t, 2, strings.Count(html, `<td data-of="fair">4711</td>`), "each cell says what it is of")
	require.Equal(t, 8, strings.Count(html, "<svg"))
	require.Contains(t, html, "&lt;fault&gt; &amp; all")
	require.NotContains(t, html, "imulation")
	for _, name := range []string{
		"steady-fair-door.svg", "steady-fair-waits.svg",
		"burst-fair-shares.svg", "burst-fair-gains.svg",
	} {
		picture, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(picture, []byte("<svg")))
	}
}

func TestTheVerdictComesFirstThenThePicturesThenTheTable(t *testing.T) {
	_, html := write(t, "go run ./bench", false)
	require.Equal(t, 3, strings.Count(html, ", and 12 more by the machine</p>"), "in the summary and with each table")
	after := 0
	for _, part := range []string{
		"All scenarios", `href="#burst"`, // the summary
		"6 (&#43;12): 6, and 12 more by the machine",
		"fair kept its promises, but ", "&lt;fault&gt;", "This machine stalled", "7 upstream 429s",
		"<svg", "All figures", "6 (&#43;12): 6, and 12 more by the machine", "4711", "6 (&#43;7)</td>",
	} {
		at := strings.Index(html[after:], part)
		require.GreaterOrEqual(t, at, 0, part)
		after += at
	}
}

func TestASimulationIsCalledOneWhereverItsFiguresStand(t *testing.T) {
	_, html := write(t, "go run ./bench -simulate", true)
	require.GreaterOrEqual(t, strings.Count(html, "imulation"), 1+1+2*(1+4),
		"title, heading; of each scenario the heading and the pictures")
}

func TestADirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := In(file, "")
	require.ErrorContains(t, err, "-out")
}
