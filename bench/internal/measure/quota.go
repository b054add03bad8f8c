package measure

import (
	"cmp"
	"slices"
	"time"
)

// arrivals are the calls that reached the upstream, in the order in which they
// did.
func arrivals(calls []Call) []Call {
	reached := slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return !c.Reached })
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

// rejected counts what the upstream turned away: what is the engine's doing, and
// what is the machine's. The engine's is what a strict upstream turns away if each
// call reaches it when the machine would have let it.
func rejected(arrived []Call, rule Rule, m Machine) (engines, machines int) {
	all := len(arrived) - len(admittedOf(arrived))
	if all == 0 {
		return 0, 0
	}
	var unhindered []Call
	for _, c := range arrived {
		by, _ := m.hindered(c)
		c.Arrived -= by
		unhindered = append(unhindered, c)
	}
	var now time.Duration
	ledger := NewLedger(rule.Limits, func() time.Duration { return now })
	for _, c := range arrivals(unhindered) {
		now = c.Arrived
		if ledger.Arrive(c).Rejected {
			engines++
		}
	}
	engines = min(all, engines)
	return engines, all - engines
}

// utilization is how full the guarded quota's window was on average: the
// permits of the last period over those that the quota has. It counts from the
// first grant + Per on, and while somebody was waiting. A strict limiter that
// lets everybody through as soon as it may comes to 1. It may hand out its
// quota one by one or in one go. To wait is to be held up for Apart, so the
// time that it takes to ask does not count.
func utilization(log Log, arrived []Call, rule Rule) Part {
	if len(arrived) == 0 {
		return 0
	}
	var occupied, possible float64
	before, within, waiting := time.Duration(0), 0, 0
	for _, c := range changes(log, arrived, rule) {
		if waiting > 0 {
			span := float64(c.at - before)
			occupied += span * float64(within)
			possible += span * float64(rule.Allows(before))
		}
		before, within, waiting = c.at, within+c.within, waiting+c.waiting
	}
	if possible == 0 {
		return 0
	}
	return Part(occupied / possible)
}

// change is by how much the permits in the window, and the callers who wait,
// become more or fewer.
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
	for _, c := range arrived {
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
