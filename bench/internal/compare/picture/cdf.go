package picture

import (
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// mostSteps is how many points a curve has.
const mostSteps = 100

// cdf draws for each client which part of its calls waited no longer than so.
func cdf(run Run, r ranking) (Drawing, error) {
	x := axisOf(r.longest)
	frame := newFrame(run.title("how long they waited"), "")
	frame.X.Label.Text = "wait, " + x.unit
	frame.X.Min, frame.X.Max = 0, max(x.of(r.longest), 1e-9)
	frame.Y.Label.Text = "calls, %"
	frame.Y.Min, frame.Y.Max = 0, 100
	clients, scope := some(clientsOf(run.Log), mostCurves, client.median)
	for _, c := range clients {
		line, err := plotter.NewLine(steps(c, x))
		if err != nil {
			return Drawing{}, err
		}
		line.StepStyle = plotter.PostStep
		line.Color, line.Width = colourOf(c.number), vg.Points(1.8)
		frame.Add(line)
	}
	return render(frame, scope, "a curve each: how many waited no longer than so", low)
}

func steps(c client, x axis) plotter.XYs {
	points := plotter.XYs{{}}
	n := min(len(c.waits), mostSteps)
	for i := range n {
		rank := (i + 1) * len(c.waits) / n
		points = append(points, plotter.XY{X: x.of(c.waits[rank-1]), Y: 100 * float64(rank) / float64(len(c.waits))})
	}
	return points
}
