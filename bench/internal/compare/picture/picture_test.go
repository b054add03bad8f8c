package picture

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

const (
	ms    = time.Millisecond
	apart = 10 * ms
)

// granted is a call whose times are milliseconds of a run that began a second
// after the clock did.
func granted(client, called, arrived int) metrics.Call {
	at := time.Second + time.Duration(arrived)*ms
	return metrics.Call{
		Client: client, Permits: 1, Called: time.Second + time.Duration(called)*ms, Ended: at,
		Outcome: metrics.Granted, Reached: true, Arrived: at,
	}
}

// runOf lasts ten seconds.
func runOf(name string, clients int, calls ...metrics.Call) Run {
	callers := make([]int, clients)
	for i := range callers {
		callers[i] = 1
	}
	return Run{Engine: name, Caption: "figures", Log: metrics.Log{
		Begin: time.Second, End: 11 * time.Second, Callers: callers, Calls: calls,
	}}
}

// stroke is a line of the SVG.
type stroke struct {
	style string
	path  string
}

// parsed are the lines and words of a drawing, which must be well-formed.
func parsed(t *testing.T, svg string) (strokes []stroke, words string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return strokes, words
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.CharData:
			words += string(token)
		case xml.StartElement:
			var s stroke
			for _, a := range token.Attr {
				switch a.Name.Local {
				case "style":
					s.style = a.Value
				case "d":
					s.path = a.Value
				}
			}
			if token.Name.Local == "path" {
				strokes = append(strokes, s)
			}
		}
	}
}

// line is a bar or a column.
type line struct{ from, top, to, bottom float64 }

func barsIn(t *testing.T, d Drawing, client int) (lines []line) {
	t.Helper()
	hue := colourOf(client)
	strokes, _ := parsed(t, d.File())
	for _, s := range strokes {
		if !strings.Contains(s.style, fmt.Sprintf("stroke:#%02X%02X%02X", hue.R, hue.G, hue.B)) {
			continue
		}
		var l line
		n, err := fmt.Sscanf(s.path, "M%f,%fL%f,%f", &l.from, &l.bottom, &l.to, &l.top)
		require.NoError(t, err, s.path)
		require.Equal(t, 4, n)
		lines = append(lines, l)
	}
	return lines
}

func drawn(t *testing.T, runs ...Run) []Set {
	t.Helper()
	sets, err := Draw(runs, apart)
	require.NoError(t, err)
	require.Len(t, sets, len(runs))
	return sets
}

func TestABarRunsFromCallToArrivalInTheOrderOfTheCalls(t *testing.T) {
	sets := drawn(t, runOf("one", 2, granted(1, 1000, 5000), granted(0, 0, 2000), granted(0, 2000, 10000)))
	first, second := barsIn(t, sets[0].Waits, 0), barsIn(t, sets[0].Waits, 1)
	require.Len(t, first, 2)
	require.Len(t, second, 1)
	require.Greater(t, first[0].top, second[0].top, "who called first is on top")
	require.Greater(t, second[0].top, first[1].top)

	aSecond := (first[0].to - first[0].from) / 2
	require.InDelta(t, 4*aSecond, second[0].to-second[0].from, 0.1)
	require.InDelta(t, 8*aSecond, first[1].to-first[1].from, 0.1)
	require.InDelta(t, aSecond, second[0].from-first[0].from, 0.1)
}

func TestAllEnginesAreDrawnToOneScale(t *testing.T) {
	sets := drawn(t,
		runOf("one", 1, granted(0, 0, 1000)),
		runOf("other", 1, granted(0, 0, 1000), granted(0, 500, 3000), granted(0, 700, 12_000)))
	require.Equal(t, barsIn(t, sets[0].Waits, 0)[0], barsIn(t, sets[1].Waits, 0)[0])

	one, other := barsIn(t, sets[0].Shares, 0)[0], barsIn(t, sets[1].Shares, 0)[0]
	require.InDelta(t, 3*(one.top-one.bottom), other.top-other.bottom, 0.1,
		"a caller of the other got three times as much")
}

func TestCallsMadeTogetherHaveNoOrder(t *testing.T) {
	calls := inOrder(runOf("one", 1, granted(0, 0, 300), granted(1, 9, 200), granted(2, 10, 100)).Log, apart)
	var clients []int
	for _, c := range calls {
		clients = append(clients, c.Client)
	}
	require.Equal(t, []int{1, 0, 2}, clients)
}

func TestWhoStillWaitsHasABarAndWhoLeftHasNone(t *testing.T) {
	waiting := metrics.Call{Client: 0, Called: 2 * time.Second, Ended: 11 * time.Second, Outcome: metrics.Waiting}
	left := metrics.Call{Client: 1, Called: 2 * time.Second, Ended: 3 * time.Second, Outcome: metrics.Left}
	sets := drawn(t, runOf("one", 3, waiting, left, granted(2, 0, 1000)))
	require.Len(t, barsIn(t, sets[0].Waits, 0), 1)
	require.Empty(t, barsIn(t, sets[0].Waits, 1))
}

func TestALongRunIsThinnedOutAndSaysSo(t *testing.T) {
	var calls []metrics.Call
	for i := range 20_000 {
		calls = append(calls, granted(i%1000, i, i+50_000))
	}
	run := runOf("one", 1000, calls...)
	run.Log.End = time.Second + 70*time.Second
	run.Simulated = true
	set := drawn(t, run)[0]

	bars := 0
	for client := range hues {
		bars += len(barsIn(t, set.Waits, client))
	}
	require.InDelta(t, mostBars, bars, 10)
	_, words := parsed(t, set.Waits.File())
	require.Contains(t, words, "1 call in ")
	_, words = parsed(t, set.CDF.File())
	require.Contains(t, words, "8 of 1000 clients")
	_, words = parsed(t, set.Shares.File())
	require.Contains(t, words, "40 of 1000 clients")
	for kind, d := range set.All() {
		_, words := parsed(t, d.File())
		require.Contains(t, words, "one: ", kind)
		require.Contains(t, words, "simulation", kind)
		require.Less(t, len(d.File()), 100_000, kind)
	}
}

func TestNothingIsDrawnOfNothing(t *testing.T) {
	for _, d := range drawn(t, runOf("one", 2))[0].All() {
		parsed(t, d.File())
		require.NotContains(t, d.File(), "NaN")
	}
}

func TestAFileKnowsDarkAndAPageColoursItself(t *testing.T) {
	d := drawn(t, runOf("a <b> & c", 1, granted(0, 0, 1000)))[0].Waits
	parsed(t, d.Inline())
	require.Contains(t, d.File(), "prefers-color-scheme:dark")
	require.NotContains(t, d.Inline(), "<style>")
	require.Contains(t, d.Inline(), "currentColor")
	require.NotContains(t, d.Inline(), inkInSVG)
	require.NotContains(t, d.Inline(), "#000000", "black is not seen on black")
}

func TestTheTimeAfterBeingPassedIsRed(t *testing.T) {
	red := func(d Drawing) (lines int) {
		strokes, _ := parsed(t, d.File())
		for _, s := range strokes {
			if strings.Contains(s.style, fmt.Sprintf("stroke:#%02X%02X%02X", passed.R, passed.G, passed.B)) {
				lines++
			}
		}
		return lines
	}
	sets := drawn(t,
		runOf("in order", 2, granted(0, 0, 2000), granted(1, 1000, 3000)),
		runOf("passed", 2, granted(0, 0, 3000), granted(1, 1000, 2000)),
		runOf("too close", 2, granted(0, 0, 3000), granted(1, 9, 2000)),
		runOf("by one that did not wait", 2, granted(0, 0, 3000), granted(1, 1000, 1005)))
	for i, want := range []int{0, 1, 0, 0} {
		require.Equal(t, want, red(sets[i].Waits), sets[i].Engine)
	}
	bar := barsIn(t, sets[1].Waits, 0)[0]
	whole := barsIn(t, sets[2].Waits, 0)[0]
	require.InDelta(t, (whole.to-whole.from)*2/3, bar.to-bar.from, 0.1,
		"the client's colour ends where the other went ahead")
}
