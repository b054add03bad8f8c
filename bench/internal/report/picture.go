package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// Drawing is a picture of one engine as SVG.
type Drawing struct {
	Name string
	SVG  template.HTML // package plot escapes the text in it
}

// How much a picture holds and can still be read.
const (
	mostBars   = 200 // calls
	mostCurves = 8   // clients
)

// Draw draws the results of one scenario. The pictures of all engines have one
// scale.
func Draw(results []*run.Result) (all []Drawing, err error) {
	for _, kind := range []struct {
		name string
		draw func(*plot.Plot, *run.Result) error
	}{{"waits", waits}, {"gains", gains}} {
		var plots []*plot.Plot
		for _, r := range results {
			p := plot.New()
			p.Title.Text, p.Title.Padding = r.Trial.Engine.Name, 8
			if err := kind.draw(p, r); err != nil {
				return nil, err
			}
			plots = append(plots, p)
		}
		oneScale(plots)
		for i, p := range plots {
			svg, err := render(p)
			if err != nil {
				return nil, fmt.Errorf("a picture cannot be drawn: %w", err)
			}
			all = append(all, Drawing{results[i].Trial.Engine.Name + "-" + kind.name, svg})
		}
	}
	return all, nil
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
		return "", err
	}
	var out bytes.Buffer
	_, err = picture.WriteTo(&out)
	from := max(0, bytes.Index(out.Bytes(), []byte("<svg"))) // after the head of an XML file
	return template.HTML(out.Bytes()[from:]), err
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
// calls. Who still waited at the end has a thin one. Of many calls the middle
// ones have a bar.
func waits(p *plot.Plot, r *run.Result) error {
	all := slices.DeleteFunc(slices.Clone(r.Log.Calls), func(c measure.Call) bool {
		return !c.Reached && c.Outcome != measure.Waiting
	})
	from := max(0, (len(all)-mostBars)/2)
	calls := all[from:min(len(all), from+mostBars)]
	for row, c := range calls {
		at := func(moment time.Duration) plotter.XY {
			return plotter.XY{X: (moment - calls[0].Called).Seconds(), Y: float64(row)}
		}
		width := vg.Length(min(4, 200/float64(len(calls))))
		if !c.Reached {
			width /= 3
		}
		since := passedAt(c, r.Log.Calls, r.Apart)
		if err := add(p, colourOf(c.Client), width, at(c.Called), at(since)); err != nil {
			return err
		}
		if since < c.Gone() {
			if err := add(p, passed, width, at(since), at(c.Gone())); err != nil {
				return err
			}
		}
	}
	p.X.Label.Text = fmt.Sprintf("seconds; %d calls of %d", len(calls), len(all))
	p.Y.Label.Text = "calls, first made on top"
	p.Y.Tick.Marker = plot.ConstantTicks(nil)
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	return nil
}

// gains draws how much each client had got by when. Of many clients the first
// ones have a curve.
func gains(p *plot.Plot, r *run.Result) error {
	got := make([][]time.Duration, min(len(r.Log.Callers), mostCurves))
	for _, c := range r.Log.Calls {
		if c.Outcome == measure.Granted && c.Client < len(got) {
			got[c.Client] = append(got[c.Client], c.Ended)
		}
	}
	for client, at := range got {
		slices.Sort(at)
		points := []plotter.XY{{}}
		for i, moment := range at {
			points = append(points, plotter.XY{X: (moment - r.Log.Begin).Seconds(), Y: float64(i + 1)})
		}
		points = append(points, plotter.XY{X: (r.Log.End - r.Log.Begin).Seconds(), Y: float64(len(at))})
		if err := add(p, colourOf(client), 1.8, points...); err != nil {
			return err
		}
	}
	p.X.Label.Text = fmt.Sprintf("seconds; %d clients of %d", len(got), len(r.Log.Callers))
	p.Y.Label.Text = "grants so far"
	return nil
}

// passedAt is when the first later call went ahead of the call, or the call's
// end if none did.
func passedAt(c measure.Call, all []measure.Call, apart time.Duration) time.Duration {
	first := c.Gone()
	for _, b := range all {
		if b.Passed(c, apart) {
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
