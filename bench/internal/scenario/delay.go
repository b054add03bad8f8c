package scenario

import (
	"math"
	"math/rand/v2"
	"time"
)

// Delay is a distribution with a heavy tail: Pareto's with the exponent 1/2,
// bounded on both sides. From 0.2 to 200 ms, half of all are under 0.8 ms, one
// in ten is over 12 ms and one in a hundred over 117 ms.
type Delay struct{ Least, Most time.Duration }

// Draw is one delay.
func (d Delay) Draw(rng *rand.Rand) time.Duration {
	low, high := 1/math.Sqrt(float64(d.Least)), 1/math.Sqrt(float64(d.Most))
	x := low - rng.Float64()*(low-high)
	return time.Duration(1 / (x * x))
}
