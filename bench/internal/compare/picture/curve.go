package picture

import (
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// mostSteps is how many points a curve has.
const mostSteps = 100

// steps climb by so much at each of the moments, which are ascending.
func steps(at []time.Duration, x axis, climb float64) plotter.XYs {
	points := plotter.XYs{{}}
	n := min(len(at), mostSteps)
	for i := range n {
		rank := (i + 1) * len(at) / n
		points = append(points, plotter.XY{X: x.of(at[rank-1]), Y: climb * float64(rank)})
	}
	return points
}

// addCurve puts a client's curve into the frame, in its colour.
func addCurve(frame *plot.Plot, c client, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.StepStyle = plotter.PostStep
	line.Color, line.Width = colourOf(c.number), vg.Points(1.8)
	frame.Add(line)
	return nil
}
