package measure

import (
	"cmp"
	"slices"
	"time"
)

// longestStarved is the longest time in which a client had somebody waiting and
// got nothing.
func longestStarved(log Log) (longest time.Duration) {
	calls := make([][]Call, len(log.Callers))
	for _, c := range log.Calls {
		calls[c.Client] = append(calls[c.Client], c)
	}
	for _, ofClient := range calls {
		longest = max(longest, longestGap(ofClient))
	}
	return longest
}

// longestGap is the longest time in which one of the calls waited and none was
// granted.
func longestGap(calls []Call) (longest time.Duration) {
	type step struct {
		at      time.Duration
		joins   bool
		granted bool
	}
	var steps []step
	for _, c := range calls {
		steps = append(steps, step{at: c.Called, joins: true}, step{at: c.Gone(), granted: c.Outcome == Granted})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	waiting, since := 0, time.Duration(0)
	for _, s := range steps {
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
	return longest
}
