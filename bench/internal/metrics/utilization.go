package metrics

import (
	"cmp"
	"slices"
	"time"
)

// utilization is what was granted over what the guarded quota allows, from the first grant + Per on and while somebody was waiting.
//
// A limiter may hand out its quota in one go once a period, so a span that is no whole number of periods would measure where its ends fall, not
// the limiter. The span therefore runs from a grant to the last one that comes a whole number of quotas later. A limiter that stops granting
// does not profit: the span reaches at least to one period before the end of the run.
//
// Nobody waiting means for longer than one permit is worth, which a caller's way back from the upstream is not.
func utilization(log Log, arrived []Call, rule Rule) float64 {
	var permits []time.Duration
	for _, c := range arrived {
		for range c.Permits {
			permits = append(permits, c.Arrived)
		}
	}
	if len(permits) == 0 {
		return 0
	}
	first, _ := slices.BinarySearch(permits, permits[0]+rule.Per)
	begin := permits[0] + rule.Per
	end := log.End - rule.period()
	last := first
	if first < len(permits) {
		begin = permits[first]
		last += (len(permits) - 1 - first) / rule.Permits * rule.Permits
		end = max(end, permits[last])
	}
	if end <= begin {
		return 0
	}
	if last < len(permits) && end > permits[last] {
		last, _ = slices.BinarySearch(permits, end)
	}
	worth := float64(rule.period()) / float64(rule.Permits)
	busy := busyWithin(log.Calls, begin, end, time.Duration(worth))
	if busy <= 0 {
		return 0
	}
	return float64(last-first) * worth / float64(busy)
}

// busyWithin is how much of the span had somebody waiting, gaps of up to slack included.
func busyWithin(calls []Call, begin, end, slack time.Duration) time.Duration {
	inOrder := slices.SortedFunc(slices.Values(calls), func(a, b Call) int { return cmp.Compare(a.Called, b.Called) })
	busy, until := end-begin, begin
	for _, c := range inOrder {
		if gap := min(c.Called, end) - until; gap > slack {
			busy -= gap
		}
		until = max(until, min(c.gone(), end))
	}
	if gap := end - until; gap > slack {
		busy -= gap
	}
	return busy
}
