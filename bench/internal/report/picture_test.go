package report

import (
	"fmt"
	"html/template"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

const (
	ms   = time.Millisecond
	near = 10 * ms
)

// granted is a call whose times are milliseconds of a run that began a second
// after the clock did.
func granted(client, called, arrived int) measure.Call {
	at := time.Second + time.Duration(arrived)*ms
	return measure.Call{
		Client: client, Permits: 1, Called: time.Second + time.Duration(called)*ms, Ended: at,
		Outcome: measure.Granted, Reached: true, Arrived: at,
	}
}

// runOf lasts ten seconds.
func runOf(name string, clients int, calls ...measure.Call) *run.Result {
	callers := make([]int, clients)
	for i := range callers {
		callers[i] = 1
	}
	r := &run.Result{Apart: near, Log: measure.Log{
		Begin: time.Second, End: 11 * time.Second, Callers: callers, Calls: calls,
	}}
	r.Trial.Engine.Name = name
	return r
}

// line is a bar or a column.
type line struct{ from, top, to, bottom float64 }

// linesIn are the lines of one colour.
func linesIn(t *testing.T, svg template.HTML, hue color.NRGBA) (lines []line) {
	t.Helper()
	of := fmt.Sprintf(`<path d="(M[^"]*)"\s+style="[^"]*stroke:#%02X%02X%02X`, hue.R, hue.G, hue.B)
	for _, path := range regexp.MustCompile(of).FindAllStringSubmatch(string(svg), -1) {
		var l line
		_, err := fmt.Sscanf(path[1], "M%f,%fL%f,%f", &l.from, &l.bottom, &l.to, &l.top)
		require.NoError(t, err, path[1])
		lines = append(lines, l)
	}
	return lines
}

// drawn are the bars of each run.
func drawn(t *testing.T, runs ...*run.Result) (bars []template.HTML) {
	t.Helper()
	all, err := Draw(runs)
	require.NoError(t, err)
	for i := range runs {
		bars = append(bars, all[i].SVG)
	}
	return bars
}

func TestABarRunsFromCallToArrivalInTheOrderOfTheCalls(t *testing.T) {
	waiting := measure.Call{Client: 2, Called: 3 * time.Second, Ended: 11 * time.Second, Outcome: measure.Waiting}
	left := measure.Call{Client: 2, Called: 3 * time.Second, Ended: 4 * time.Second, Outcome: measure.Left}
	sets := drawn(t,
		runOf("one", 3, granted(0, 0, 2000), granted(1, 1000, 5000), granted(0, 2000, 9000), waiting, left),
		runOf("other, longer", 1, granted(0, 0, 2000), granted(0, 500, 12_000)))
	first, second := linesIn(t, sets[0], colourOf(0)), linesIn(t, sets[0], colourOf(1))
	require.Len(t, first, 2)
	require.Len(t, second, 1)
	require.Greater(t, first[0].top, second[0].top, "who called first is on top")
	require.Greater(t, second[0].top, first[1].top)

	aSecond := (first[0].to - first[0].from) / 2
	require.InDelta(t, 4*aSecond, second[0].to-second[0].from, 1)
	require.InDelta(t, 7*aSecond, first[1].to-first[1].from, 1)
	require.InDelta(t, aSecond, second[0].from-first[0].from, 1)
	require.Len(t, linesIn(t, sets[0], colourOf(2)), 1, "of who still waits, not of who left")

	other := linesIn(t, sets[1], colourOf(0))[0]
	require.InDelta(t, 2*aSecond, other.to-other.from, 1, "all engines are drawn to one scale")
}

func TestWhatWasOvertakenIsRed(t *testing.T) {
	sets := drawn(t,
		runOf("in order", 2, granted(0, 0, 2000), granted(1, 1000, 3000)),
		runOf("passed", 2, granted(0, 0, 3000), granted(1, 1000, 2000)),
		runOf("too close", 2, granted(0, 0, 3000), granted(1, 9, 2000)),
		runOf("by one that did not wait", 2, granted(0, 0, 3000), granted(1, 1000, 1005)))
	for i, want := range []int{0, 1, 0, 0} {
		require.Len(t, linesIn(t, sets[i], passed), want)
	}
	bar := linesIn(t, sets[1], colourOf(0))[0]
	whole := linesIn(t, sets[2], colourOf(0))[0]
	require.InDelta(t, (whole.to-whole.from)*2/3, bar.to-bar.from, 1,
		"the client's colour ends where the other went ahead")
}

func TestThePageNeedsNothingButItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on the way")
	p, err := In(dir)
	require.NoError(t, err)
	for _, scenario := range []string{"steady", "burst"} {
		of := results()
		for _, r := range of {
			r.Trial.Scenario.Name, r.Log.Callers = scenario, []int{1}
			r.Log.Calls = []measure.Call{granted(0, 0, 1000)}
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
