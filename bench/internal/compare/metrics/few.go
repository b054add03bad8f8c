package metrics

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
