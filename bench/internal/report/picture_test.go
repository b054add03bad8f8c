package report

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// granted is a call whose times are seconds of the run.
func granted(client int, called, arrived float64) measure.Call {
	at := time.Duration(arrived * 1e9)
	return measure.Call{
		Client: client, Permits: 1, Called: time.Duration(called * 1e9), Ended: at,
		Outcome: measure.Granted, Reached: true, Arrived: at,
	}
}

// bars are how long those of one colour are, in parts of the longest of the run.
func bars(t *testing.T, calls []measure.Call, hue color.NRGBA) (lengths []float64) {
	t.Helper()
	r := &run.Result{Apart: 10 * time.Millisecond, Log: measure.Log{End: 10 * time.Second, Calls: calls}}
	all, err := Draw([]*run.Result{r})
	require.NoError(t, err)
	of := fmt.Sprintf(`<path d="M([0-9.]+),[0-9.]+L([0-9.]+),[^"]*"\s+style="[^"]*stroke:#%02X%02X%02X`,
		hue.R, hue.G, hue.B)
	for _, path := range regexp.MustCompile(of).FindAllStringSubmatch(string(all[0].SVG), -1) {
		from, _ := strconv.ParseFloat(path[1], 64)
		to, _ := strconv.ParseFloat(path[2], 64)
		lengths = append(lengths, to-from)
	}
	return lengths
}

func TestABarRunsFromCallToArrivalAndIsRedFromWhenItWasPassed(t *testing.T) {
	waiting := measure.Call{Called: time.Second, Ended: 10 * time.Second, Outcome: measure.Waiting}
	left := measure.Call{Called: 3 * time.Second, Ended: 4 * time.Second, Outcome: measure.Left}
	inOrder := bars(t, []measure.Call{granted(0, 0, 2), waiting, granted(0, 2, 10), left}, colourOf(0))
	require.Len(t, inOrder, 3, "who left has none")
	aSecond := inOrder[0] / 2
	require.InDelta(t, 9*aSecond, inOrder[1], 1)
	require.InDelta(t, 8*aSecond, inOrder[2], 1)

	was := []measure.Call{granted(0, 0, 3), granted(1, 1, 2)}
	red, own := bars(t, was, passed), bars(t, was, colourOf(0))
	require.Len(t, red, 1)
	require.InDelta(t, own[0]/2, red[0], 1)
	for name, b := range map[string]measure.Call{
		"in order": granted(1, 1, 4), "called too close": granted(1, 0.009, 2), "did not wait": granted(1, 1, 1.005),
	} {
		require.Empty(t, bars(t, []measure.Call{granted(0, 0, 3), b}, passed), name)
	}
}

func TestThePageNeedsNothingButItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on the way")
	p, err := In(dir)
	require.NoError(t, err)
	for _, scenario := range []string{"steady", "burst"} {
		of := results()
		for _, r := range of {
			r.Trial.Scenario.Name, r.Log.Callers = scenario, []int{1}
			r.Log.Calls = []measure.Call{granted(0, 0, 1)}
		}
		of[1].Faults = []string{"<fault> & all"}
		require.NoError(t, p.Add(Of(of), of))
	}
	content, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	html := regexp.MustCompile(`xmlns(:\w+)?="[^"]*"`).ReplaceAllString(string(content), "") // names, not addresses
	require.NotRegexp(t, regexp.MustCompile(`(?i)https?:|\bsrc=|<link|<script|@import|url\(|href="[^#]`), html)
	for _, part := range []string{`id="steady"`, `id="burst"`, "&lt;fault&gt; &amp; all"} {
		require.Contains(t, html, part)
	}
	require.Equal(t, 2*2*2, strings.Count(html, "<svg"), "scenarios, engines and kinds")
	require.FileExists(t, filepath.Join(dir, "burst-polling-gains.svg"))
}
