package picture

import (
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

// gains draws who got what over time: how much each client had got by when.
func gains(run Run, r ranking) (Drawing, error) {
	x := axisOf(r.lasted)
	frame := newFrame(run.title("who got what over time"), "")
	frame.X.Label.Text = "time, " + x.unit
	frame.X.Min, frame.X.Max = 0, max(x.of(r.lasted), 1e-9)
	frame.Y.Label.Text = "grants so far"
	frame.Y.Min, frame.Y.Max = 0, max(1, r.largest*1.05)
	clients, scope := some(clientsOf(run.Log), mostCurves, func(c client) int { return len(c.waits) })
	for _, c := range clients {
		line, err := plotter.NewLine(gained(run.Log, c.number, x))
		if err != nil {
			return Drawing{}, err
		}
		line.StepStyle = plotter.PostStep
		line.Color, line.Width = colourOf(c.number), vg.Points(1.8)
		frame.Add(line)
	}
	return render(frame, scope, "a curve each: what it had got by then", low)
}

func gained(log metrics.Log, client int, x axis) plotter.XYs {
	var at []time.Duration
	for _, c := range log.Calls {
		if c.Client == client && c.Outcome == metrics.Granted {
			at = append(at, c.Ended-log.Begin)
		}
	}
	points := plotter.XYs{{}}
	n := min(len(at), mostSteps)
	slices.Sort(at)
	for i := range n {
		rank := (i + 1) * len(at) / n
		points = append(points, plotter.XY{X: x.of(at[rank-1]), Y: float64(rank)})
	}
	return append(points, plotter.XY{X: x.of(log.End - log.Begin), Y: float64(len(at))})
}
