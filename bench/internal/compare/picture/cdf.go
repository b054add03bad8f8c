package picture

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
		if err := addCurve(frame, c, steps(c.waits, x, 100/float64(len(c.waits)))); err != nil {
			return Drawing{}, err
		}
	}
	return render(frame, scope, "a curve each: how many waited no longer than so", low)
}
