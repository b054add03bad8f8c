package picture

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// shares draws what a caller of each client got, and a line where all would be
// equal.
func shares(run Run, r ranking) (Drawing, error) {
	frame := newFrame(run.title("what each client got"), "")
	all := clientsOf(run.Log)
	var total float64
	for _, c := range all {
		total += c.perCaller
	}
	clients, scope := some(all, mostColumns, func(c client) float64 { return c.perCaller })
	frame.Y.Label.Text = "grants per caller"
	frame.Y.Min, frame.Y.Max = 0, max(1, r.most*1.05)
	frame.X.Label.Text = "clients"
	frame.X.Min, frame.X.Max = -0.5, float64(len(clients))-0.5
	frame.X.Tick.Marker = numbers(clients)
	frame.Add(columns{clients: clients, mean: total / float64(max(1, len(all)))})
	return render(frame, scope, "dashed: where all are equal", low)
}

// numbers labels each column with its client, where there is room.
func numbers(clients []client) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	if len(clients) <= 12 {
		for i, c := range clients {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: fmt.Sprint(c.number)})
		}
	}
	return ticks
}

// columns is the plotter of shares.
type columns struct {
	clients []client
	mean    float64
}

var _ plot.Plotter = columns{}

func (s columns) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	thick := min(40, (toX(1)-toX(0))*0.8)
	for i, one := range s.clients {
		x := toX(float64(i))
		c.StrokeLine2(draw.LineStyle{Color: colourOf(one.number), Width: thick}, x, toY(0), x, toY(one.perCaller))
	}
	equal := draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{4, 3}}
	c.StrokeLine2(equal, c.Min.X, toY(s.mean), c.Max.X, toY(s.mean))
}
