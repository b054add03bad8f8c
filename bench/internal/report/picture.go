package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Run is what one engine did.
type Run struct {
	Engine    string
	Simulated bool
	Log       measure.Log
}

// Kind is one kind of picture, of all engines, drawn to one scale.
type Kind struct {
	Name, Heading, About string
	Drawings             []Drawing
}

// Drawing is the picture of one engine as SVG.
type Drawing struct {
	Engine string
	SVG    template.HTML // package plot escapes the text in it
}

// How much a picture holds and can still be read.
const (
	mostBars   = 200 // calls
	mostCurves = 8   // clients
)

// Draw draws the runs of one scenario. Calls less than apart from each other
// have no order.
func Draw(runs []Run, apart time.Duration) ([]Kind, error) {
	kinds := []struct {
		Kind
		draw func(*plot.Plot, Run) error
	}{
		{Kind{
			Name: "waits", Heading: "Who overtook whom",
			About: "A bar is a call, from asking to getting through, the first that asked on top. Red is the time in " +
				"which a call went on waiting although one that had asked later was already through.",
		}, func(p *plot.Plot, r Run) error { return waits(p, r, apart) }},
		{Kind{
			Name: "gains", Heading: "Who got what over time",
			About: "A curve for each client: how many grants it had got by then.",
		}, gains},
	}
	var drawn []Kind
	for _, k := range kinds {
		var plots []*plot.Plot
		for _, r := range runs {
			p := newPlot(r)
			if err := k.draw(p, r); err != nil {
				return nil, err
			}
			plots = append(plots, p)
		}
		oneScale(plots)
		for i, p := range plots {
			svg, err := render(p)
			if err != nil {
				return nil, err
			}
			k.Drawings = append(k.Drawings, Drawing{runs[i].Engine, svg})
		}
		drawn = append(drawn, k.Kind)
	}
	return drawn, nil
}

func newPlot(r Run) *plot.Plot {
	p := plot.New()
	p.Title.Text = r.Engine
	if r.Simulated {
		p.Title.Text += " (simulation)"
	}
	p.Title.Padding = 8
	return p
}

// oneScale gives all plots the widest range of any of them.
func oneScale(plots []*plot.Plot) {
	for _, axis := range []func(*plot.Plot) *plot.Axis{
		func(p *plot.Plot) *plot.Axis { return &p.X },
		func(p *plot.Plot) *plot.Axis { return &p.Y },
	} {
		least, most := 0.0, 1e-9
		for _, p := range plots {
			least, most = min(least, axis(p).Min), max(most, axis(p).Max)
		}
		for _, p := range plots {
			axis(p).Min, axis(p).Max = least, most
		}
	}
}

func render(p *plot.Plot) (template.HTML, error) {
	const width, height = 400, 340
	picture, err := p.WriterTo(width, height, "svg")
	if err != nil {
		return "", fmt.Errorf("a picture cannot be drawn: %w", err)
	}
	var out bytes.Buffer
	if _, err := picture.WriteTo(&out); err != nil {
		return "", fmt.Errorf("a picture cannot be drawn: %w", err)
	}
	from := max(0, bytes.Index(out.Bytes(), []byte("<svg"))) // after the head of an XML file
	return template.HTML(out.Bytes()[from:]), nil
}

// add puts a line into the plot.
func add(p *plot.Plot, of color.Color, width vg.Length, points ...plotter.XY) error {
	line, err := plotter.NewLine(plotter.XYs(points))
	if err != nil {
		return err
	}
	line.Color, line.Width = of, width
	p.Add(line)
	return nil
}

// waits draws each call as a bar from call to arrival, in the order of the
// calls. Who still waited at the end has a thin one.
func waits(p *plot.Plot, r Run, apart time.Duration) error {
	all := inOrder(r.Log, apart)
	calls := middle(all, mostBars)
	for row, c := range calls {
		at := func(moment time.Duration) plotter.XY {
			return plotter.XY{X: (moment - calls[0].Called).Seconds(), Y: float64(row)}
		}
		width := vg.Length(min(4, 200/float64(len(calls))))
		if !c.Reached {
			width /= 3
		}
		since := passedAt(c, r.Log.Calls, apart)
		if err := add(p, colourOf(c.Client), width, at(c.Called), at(since)); err != nil {
			return err
		}
		if since == c.Gone() {
			continue
		}
		if err := add(p, passed, width, at(since), at(c.Gone())); err != nil {
			return err
		}
	}
	p.X.Label.Text = "seconds; every call"
	if len(calls) < len(all) {
		p.X.Label.Text = fmt.Sprintf("seconds; %d calls of %d, from the middle of the run", len(calls), len(all))
	}
	p.Y.Label.Text = "calls, first made on top"
	p.Y.Tick.Marker = plot.ConstantTicks(nil)
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	return nil
}

// gains draws how much each client had got by when.
func gains(p *plot.Plot, r Run) error {
	const most = 100 // points of a curve
	clients, scope := some(r.Log)
	for _, c := range clients {
		points := []plotter.XY{{}}
		for i := range min(len(c.got), most) {
			rank := (i + 1) * len(c.got) / min(len(c.got), most)
			points = append(points, plotter.XY{X: (c.got[rank-1] - r.Log.Begin).Seconds(), Y: float64(rank)})
		}
		points = append(points, plotter.XY{X: (r.Log.End - r.Log.Begin).Seconds(), Y: float64(len(c.got))})
		if err := add(p, colourOf(c.number), 1.8, points...); err != nil {
			return err
		}
	}
	p.X.Label.Text = "seconds; " + scope
	p.Y.Label.Text = "grants so far"
	return nil
}

// client is what one client got, and when.
type client struct {
	number    int
	got       []time.Duration // ascending
	perCaller float64
}

// some are at most as many clients as have curves, evenly from the one with the
// least grants per caller to the one with the most.
func some(log measure.Log) (picked []client, scope string) {
	clients := make([]client, len(log.Callers))
	for _, call := range log.Calls {
		if call.Outcome == measure.Granted {
			clients[call.Client].got = append(clients[call.Client].got, call.Ended)
		}
	}
	for i := range clients {
		c := &clients[i]
		c.number, c.perCaller = i, float64(len(c.got))/float64(max(1, log.Callers[i]))
		slices.Sort(c.got)
	}
	if len(clients) <= mostCurves {
		return clients, "every client"
	}
	slices.SortStableFunc(clients, func(a, b client) int { return cmp.Compare(a.perCaller, b.perCaller) })
	for i := range mostCurves {
		picked = append(picked, clients[i*(len(clients)-1)/(mostCurves-1)])
	}
	return picked, fmt.Sprintf("%d of %d clients, from the least to the most", mostCurves, len(clients))
}

// inOrder are the calls that were let through or still waited at the end, in
// the order in which they were made. Those made within apart of the first of
// them have none; they stand in the order in which they were let through.
func inOrder(log measure.Log, apart time.Duration) (calls []measure.Call) {
	for _, c := range log.Calls {
		if c.Reached || c.Outcome == measure.Waiting {
			calls = append(calls, c)
		}
	}
	slices.SortStableFunc(calls, func(a, b measure.Call) int { return cmp.Compare(a.Called, b.Called) })
	for first := 0; first < len(calls); {
		next := first + 1
		for next < len(calls) && calls[next].Called-calls[first].Called < apart {
			next++
		}
		slices.SortStableFunc(calls[first:next], func(a, b measure.Call) int { return cmp.Compare(a.Gone(), b.Gone()) })
		first = next
	}
	return calls
}

func middle(calls []measure.Call, most int) []measure.Call {
	from := max(0, (len(calls)-most)/2)
	return calls[from:min(len(calls), from+most)]
}

// passedAt is when the first later call went ahead of the call, or the call's
// end if none did. It goes by the rule by which the figures count inversions.
func passedAt(c measure.Call, all []measure.Call, apart time.Duration) time.Duration {
	first := c.Gone()
	for _, b := range all {
		waited := b.Reached && b.Arrived-b.Called >= apart
		if waited && b.Called >= c.Called+apart && b.Arrived <= c.Gone()-apart {
			first = min(first, b.Arrived)
		}
	}
	return first
}

// passed is what the part of a wait is drawn in that somebody else should have
// waited. No hue is near it.
var passed = color.NRGBA{R: 0xe5, G: 0x1c, B: 0x38, A: 0xff}

// hues tell clients apart, also for those who do not see red and green apart.
var hues = []color.NRGBA{
	{0x2f, 0x7f, 0xd1, 0xff},
	{0xd9, 0xa4, 0x04, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0x8c, 0x6b, 0xd1, 0xff},
	{0x56, 0xb4, 0xe9, 0xff},
	{0x9a, 0x8f, 0x30, 0xff},
	{0x7c, 0x8a, 0x99, 0xff},
	{0x5b, 0xb8, 0x4c, 0xff},
}

// colourOf is the client's, in all pictures. There are fewer colours than there
// may be clients.
func colourOf(client int) color.NRGBA { return hues[client%len(hues)] }
