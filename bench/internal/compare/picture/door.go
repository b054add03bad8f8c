package picture

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/vg"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

// How the door is laid out, in points.
const (
	atDoor     = 32 // calls
	doorStep   = 9  // from one call to the next below it
	doorTop    = 58
	doorPanel  = 230 // width of one engine's
	doorMargin = 34
	doorFoot   = 34

	// doorSlow is how many times slower than the run the dots go.
	doorSlow = 3
)

// Door draws some calls in a row from the middle of each run, for a talk: on
// the left in the order in which they asked, on the right in the order in which
// they got through. Lines that cross are overtaking. Dots travel along the lines
// as the calls did in time, where the reader allows motion.
func Door(runs []Run, apart time.Duration) Drawing {
	var all [][]metrics.Call
	longest := time.Duration(1)
	for _, run := range runs {
		calls := fromTheMiddle(run.Log, apart)
		all = append(all, calls)
		for _, c := range calls {
			longest = max(longest, c.Arrived-calls[0].Called)
		}
	}
	d := Drawing{
		Title: fmt.Sprintf("%d calls at one door", atDoor),
		width: vg.Length(doorPanel * max(1, len(runs))), height: doorTop + doorFoot + doorStep*(atDoor-1),
	}
	var out strings.Builder
	out.WriteString("<style>.dot{display:none}" +
		"@media (prefers-reduced-motion:no-preference){.dot{display:inline}}</style>\n")
	for i, run := range runs {
		fmt.Fprintf(&out, "<g transform=\"translate(%d 0)\" font-family=\"%s\" fill=\"currentColor\">\n",
			i*doorPanel, html.EscapeString(fonts))
		panel{all[i], newOvertaking(run.Log, apart), longest}.draw(&out, run)
		out.WriteString("</g>\n")
	}
	d.shapes = out.String()
	return d
}

// fromTheMiddle are calls in a row that got through, in the order in which they
// were made.
func fromTheMiddle(log metrics.Log, apart time.Duration) []metrics.Call {
	calls := slices.DeleteFunc(inOrder(log, apart), func(c metrics.Call) bool { return !c.Reached })
	from := max(0, (len(calls)-atDoor)/2)
	return calls[from:min(len(calls), from+atDoor)]
}

// panel is one engine's part of the door.
type panel struct {
	calls      []metrics.Call
	overtaking overtaking
	longest    time.Duration // what all panels take
}

func (p panel) draw(out *strings.Builder, run Run) {
	text := func(x, y, size int, anchor, says string) {
		fmt.Fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"%d\" text-anchor=\"%s\">%s</text>\n",
			x, y, size, anchor, html.EscapeString(says))
	}
	const left, right = doorMargin, doorPanel - doorMargin
	name := run.Engine
	if run.Simulated {
		name += " (simulation)"
	}
	text(doorPanel/2, 20, 15, "middle", name)
	text(left, 42, 10, "middle", "asked")
	text(right, 42, 10, "middle", "got through")

	through := slices.Clone(p.calls)
	slices.SortStableFunc(through, func(a, b metrics.Call) int { return cmp.Compare(a.Arrived, b.Arrived) })
	overtaken := 0
	for asked, c := range p.calls {
		colour := "currentColor"
		if p.overtaking.since(c) < end(c) {
			colour = fmt.Sprintf("#%02x%02x%02x", passed.R, passed.G, passed.B)
			overtaken++
		}
		went := slices.IndexFunc(through, func(t metrics.Call) bool {
			return t.Client == c.Client && t.Caller == c.Caller && t.Seq == c.Seq
		})
		y1, y2 := doorTop+asked*doorStep, doorTop+went*doorStep
		fmt.Fprintf(out, "<path d=\"M%d %dL%d %d\" stroke=\"%s\" stroke-width=\"1.2\" opacity=\".7\"/>\n",
			left, y1, right, y2, colour)
		p.dot(out, c, colour, [2]int{left, right}, [2]int{y1, y2})
	}
	text(doorPanel/2, doorTop+doorStep*(atDoor-1)+24, 11, "middle",
		fmt.Sprintf("%d of %d were overtaken", overtaken, len(p.calls)))
}

// dot travels from when the call was made until it arrived, again and again.
func (p panel) dot(out *strings.Builder, c metrics.Call, colour string, x, y [2]int) {
	// A fifth of the time, everybody is through and nothing moves.
	whole := p.longest + p.longest/5
	at := func(moment time.Duration) float64 {
		return min(1, max(0, float64(moment-p.calls[0].Called)/float64(whole)))
	}
	fmt.Fprintf(out, "<circle class=\"dot\" r=\"3.2\" cx=\"%d\" cy=\"%d\" fill=\"%s\">", x[0], y[0], colour)
	for _, axis := range []struct {
		name string
		of   [2]int
	}{{"cx", x}, {"cy", y}} {
		fmt.Fprintf(out, "<animate attributeName=\"%s\" dur=\"%.1fs\" repeatCount=\"indefinite\" "+
			"keyTimes=\"0;%.4f;%.4f;1\" values=\"%d;%d;%d;%d\"/>",
			axis.name, doorSlow*whole.Seconds(), at(c.Called), at(c.Arrived),
			axis.of[0], axis.of[0], axis.of[1], axis.of[1])
	}
	out.WriteString("</circle>\n")
}
