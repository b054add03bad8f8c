package picture

import (
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

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
		if err := addCurve(frame, c, gained(run.Log, c.number, x)); err != nil {
			return Drawing{}, err
		}
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
	slices.Sort(at)
	return append(steps(at, x, 1), plotter.XY{X: x.of(log.End - log.Begin), Y: float64(len(at))})
}
