package measure

import (
	"cmp"
	"slices"
	"time"
)

// utilization is how full the guarded quota's window was on average: the
// permits of the last period over those that the quota has. It counts from the
// first grant + Per on, and while somebody was waiting. A strict limiter that
// lets everybody through as soon as it may comes to 1. It may hand out its
// quota one by one or in one go. To wait is to be held up for Apart, so the
// time that it takes to ask does not count.
//
// The second figure is how many permits were allowed and not used. A permit is
// lost when a whole period passes without it.
func utilization(log Log, arrived []Call, rule Rule) (used, unused float64) {
	if len(arrived) == 0 {
		return 0, 0
	}
	var occupied, possible, lost float64
	before, within, waiting := time.Duration(0), 0, 0
	for _, c := range changes(log, arrived, rule) {
		if waiting > 0 {
			span, permits := float64(c.at-before), log.permits(before, rule)
			occupied += span * float64(within)
			possible += span * float64(permits)
			lost += span * float64(max(0, permits-within))
		}
		before = c.at
		within += c.within
		waiting += c.waiting
	}
	if possible == 0 {
		return 0, 0
	}
	return occupied / possible, lost / float64(rule.period())
}

// change is by how much the permits in the window and those who wait become
// more or fewer.
type change struct {
	at              time.Duration
	within, waiting int
}

// changes are in order. What happens outside of the time that counts is moved
// to its ends.
func changes(log Log, arrived []Call, rule Rule) (all []change) {
	begin, end := arrived[0].Arrived+rule.Per, log.End
	add := func(at time.Duration, within, waiting int) {
		all = append(all, change{max(begin, min(at, end)), within, waiting})
	}
	for _, at := range log.turningPoints() {
		add(at, 0, 0)
	}
	for _, c := range arrived {
		if c.Closed {
			continue
		}
		add(c.Arrived, c.Permits, 0)
		add(c.Arrived+rule.period(), -c.Permits, 0)
	}
	for _, c := range log.Calls {
		if held := c.Called + rule.Apart; held < c.Gone() {
			add(held, 0, 1)
			add(c.Gone(), 0, -1)
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return all
}
