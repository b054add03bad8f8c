package measure

import (
	"slices"
	"time"
)

// fewWait is the median wait of the clients that have the fewest callers. What
// still waits at the end counts with what it has waited by then. It is nil if
// all clients have as many.
func fewWait(log Log) *float64 {
	if len(log.Callers) == 0 || slices.Min(log.Callers) == slices.Max(log.Callers) {
		return nil
	}
	few := slices.Min(log.Callers)
	var waited []time.Duration
	for _, c := range log.Calls {
		if log.Callers[c.Client] == few && (c.Outcome == Granted || c.Outcome == Waiting) {
			waited = append(waited, c.Ended-c.Called)
		}
	}
	median := quantiles(waited).P50
	return &median
}

// fewPermits is what a client with the most callers got, and what one with the
// fewest got, both on average. It is nil if all clients have as many.
func fewPermits(got []Share) *[2]float64 {
	if len(got) == 0 {
		return nil
	}
	callers := func(a, b Share) int { return a.Callers - b.Callers }
	most, few := slices.MaxFunc(got, callers).Callers, slices.MinFunc(got, callers).Callers
	if most == few {
		return nil
	}
	return &[2]float64{meanOf(got, most), meanOf(got, few)}
}

func meanOf(got []Share, callers int) float64 {
	permits, clients := 0, 0
	for _, s := range got {
		if s.Callers == callers {
			permits, clients = permits+s.Permits, clients+1
		}
	}
	return float64(permits) / float64(clients)
}
