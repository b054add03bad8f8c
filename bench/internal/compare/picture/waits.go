package picture

import (
	"fmt"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

// waits draws each call as a bar from call to arrival, in the order of the
// calls, and a line through where they end. Calls that are let through in the
// order in which they were made draw a slope; others a zigzag, with red in it.
func waits(run Run, p part, which int) (Drawing, error) {
	x := axisOf(p.until - p.from)
	frame := newFrame(run.title("from call to turn"), run.Caption)
	frame.X.Label.Text = "time, " + x.unit
	if p.from > 0 {
		frame.X.Label.Text = fmt.Sprintf("%s from %s on", x.unit, clock(p.from))
	}
	frame.X.Min, frame.X.Max = 0, x.of(p.until-p.from)
	frame.Y.Label.Text = "calls, first made on top"
	frame.Y.Min, frame.Y.Max = -1, float64(max(1, p.rows()))
	frame.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	frame.Y.Tick.Marker = plot.ConstantTicks(nil)
	frame.Add(bars{
		calls: p.bars[which], zero: run.Log.Begin + p.from, x: x, overtaking: newOvertaking(run.Log, p.apart),
	})
	return render(frame, p.scope(), "colour: client; red: passed by a later call", tall)
}

// bars is the plotter of waits.
type bars struct {
	calls []metrics.Call
	zero  time.Duration // of the axis
	x     axis
	overtaking
}

var _ plot.Plotter = bars{}

const widestBar = vg.Length(4)

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	var ends []vg.Point
	for row, call := range b.calls {
		thick := min(widestBar, (toY(0)-toY(1))*0.8)
		y := toY(float64(row))
		at := func(moment time.Duration) vg.Length { return toX(b.x.of(moment - b.zero)) }
		if !call.Reached {
			thick /= 3 // still waiting
		}
		since := b.since(call)
		c.StrokeLine2(draw.LineStyle{Color: colourOf(call.Client), Width: thick}, at(call.Called), y, at(since), y)
		if since < end(call) {
			c.StrokeLine2(draw.LineStyle{Color: passed, Width: thick}, at(since), y, at(end(call)), y)
		}
		if call.Reached {
			ends = append(ends, vg.Point{X: at(call.Arrived), Y: y})
		}
	}
	c.StrokeLines(draw.LineStyle{Color: ink, Width: 0.7}, ends)
}
