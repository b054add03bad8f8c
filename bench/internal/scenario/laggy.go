package scenario

import (
	"math"
	"time"
)

var laggy = Scenario{
	Name:  "laggy",
	About: "saturated, and what Redis answers is held up for 0.2 to 200 ms, with a heavy tail",
	// The delays of the replies are part of what the guard must cover.
	Load:    Load{Guard: 250 * time.Millisecond},
	Replies: &Delay{Least: 200 * time.Microsecond, Most: 200 * time.Millisecond},
	Behave:  steady.Behave,
}

// Delay is a distribution with a heavy tail: Pareto's with the exponent 1/2,
// bounded on both sides. From 0.2 to 200 ms, half of all are under 0.8 ms, one
// in ten is over 12 ms and one in a hundred over 117 ms.
type Delay struct{ Least, Most time.Duration }

// Draw is the delay for a number drawn from 0 to 1.
func (d Delay) Draw(uniform float64) time.Duration {
	low, high := 1/math.Sqrt(float64(d.Least)), 1/math.Sqrt(float64(d.Most))
	x := low - uniform*(low-high)
	return time.Duration(1 / (x * x))
}
