package picture

import "time"

// axis is a scale of time.
type axis struct {
	unit string
	one  time.Duration
}

// axisOf is the axis on which d is no large number.
func axisOf(d time.Duration) axis {
	switch {
	case d < 2*time.Second:
		return axis{"ms", time.Millisecond}
	case d < 10*time.Minute:
		return axis{"seconds", time.Second}
	case d < 10*time.Hour:
		return axis{"minutes", time.Minute}
	default:
		return axis{"hours", time.Hour}
	}
}

func (a axis) of(d time.Duration) float64 { return float64(d) / float64(a.one) }
