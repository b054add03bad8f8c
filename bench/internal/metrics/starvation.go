package metrics

import (
	"cmp"
	"slices"
	"time"
)

// longestStarved is the longest time in which a client had somebody waiting and got nothing.
func longestStarved(log Log) (longest time.Duration) {
	type step struct {
		at      time.Duration
		joins   bool
		granted bool
	}
	steps := make([][]step, len(log.Callers))
	for _, c := range log.Calls {
		steps[c.Client] = append(steps[c.Client],
			step{at: c.Called, joins: true},
			step{at: c.gone(), granted: c.Outcome == Granted})
	}
	for _, client := range steps {
		slices.SortStableFunc(client, func(a, b step) int { return cmp.Compare(a.at, b.at) })
		waiting, since := 0, time.Duration(0)
		for _, s := range client {
			if s.joins {
				if waiting == 0 {
					since = s.at
				}
				waiting++
				continue
			}
			waiting--
			if s.granted || waiting == 0 {
				longest = max(longest, s.at-since)
				since = s.at
			}
		}
	}
	return longest
}
