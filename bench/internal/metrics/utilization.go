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
// What nobody wants for a while is not lost at once: it may be taken within the period that follows. So of a time in which nobody waited, only
// what exceeds a period is taken out, and no strict limiter comes out over 1.
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
	busy := end - begin - idleWithin(log.Calls, begin, end, rule.period())
	return float64(last-first) * worth / float64(busy)
}

// idleWithin is by how much the times of the span in which nobody waited exceeded credit, altogether.
func idleWithin(calls []Call, begin, end, credit time.Duration) (idle time.Duration) {
	inOrder := slices.SortedFunc(slices.Values(calls), func(a, b Call) int { return cmp.Compare(a.Called, b.Called) })
	until := begin
	for _, c := range inOrder {
		idle += max(0, min(c.Called, end)-until-credit)
		until = max(until, min(c.gone(), end))
	}
	return idle + max(0, end-until-credit)
}
