package measure

import "time"

// overtaking counts the pairs in which b passed a, and the most calls that passed
// a single one. Calls are in the order in which they were made. The machine has
// hindered those that were passed as told; whoever missed a turn was not passed.
func overtaking(
	calls []Call, apart time.Duration, hindered func(Call) (by time.Duration, missed bool),
) (pairs, most int) {
	for i, a := range calls {
		by, missed := hindered(a)
		if missed {
			continue
		}
		a.Called, a.Arrived, a.Ended = a.Called+by, a.Arrived-by, a.Ended-by
		passers := 0
		for _, b := range calls[i+1:] {
			if b.Called > a.Gone() {
				break
			}
			if b.Passed(a, apart) {
				passers++
			}
		}
		pairs, most = pairs+passers, max(most, passers)
	}
	return pairs, most
}

// Passed reports whether b called at least apart after a, and reached the
// upstream at least apart before, while both waited. A call that the end of the
// run found waiting counts as an a that arrives no sooner than then.
//
// To wait is to be held up for at least apart. A was, or b could not have been so
// far ahead.
func (b Call) Passed(a Call, apart time.Duration) bool {
	waited := b.Reached && b.Arrived-b.Called >= apart
	return waited && (a.Reached || a.Outcome == Waiting) &&
		b.Called >= a.Called+apart && b.Arrived <= a.Gone()-apart
}
