package measure

import (
	"cmp"
	"slices"
	"time"
)

// arrivals are the calls that reached the upstream, in the order in which they
// did.
func arrivals(calls []Call) []Call {
	var reached []Call
	for _, c := range calls {
		if c.Reached {
			reached = append(reached, c)
		}
	}
	slices.SortStableFunc(reached, func(a, b Call) int { return cmp.Compare(a.Arrived, b.Arrived) })
	return reached
}

// maxInWindow is the most permits in any half-open window of length per.
// Rejected arrivals count: they came.
func maxInWindow(arrived []Call, per time.Duration) (most int) {
	in, oldest := 0, 0
	for _, c := range arrived {
		in += c.Permits
		for arrived[oldest].Arrived <= c.Arrived-per {
			in -= arrived[oldest].Permits
			oldest++
		}
		most = max(most, in)
	}
	return most
}
