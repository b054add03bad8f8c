package measure

import (
	"cmp"
	"slices"
	"time"
)

// Span is from when a call waited, and until when, as its order is judged.
type Span struct{ From, To time.Duration }

// asSeen is the call by what the upstream and its caller saw.
func asSeen(c Call) Span { return Span{c.Called, c.Gone()} }

// overtaking counts the pairs in which A called at least apart before B, both
// waited, and B reached the upstream at least apart before A. The second
// figure, most, is the largest number of Bs for one A. A call that the end of
// the run found waiting counts as an A that arrives no sooner than then.
//
// Waiting is being held up for at least apart. A always was, or B could not
// have been so far ahead of it.
//
// When A called and arrived is what of says: as it was seen, or as it would have
// been without what the machine did.
func overtaking(calls []Call, apart time.Duration, of func(Call) Span) (pairs, most int) {
	var passers, passed []Span
	for _, c := range calls {
		if c.Reached && c.Arrived-c.Called >= apart {
			passers = append(passers, Span{c.Called, c.Arrived})
		}
		if c.Reached || c.Outcome == Waiting {
			passed = append(passed, of(c))
		}
	}
	return inversions(passers, passed, apart)
}

// inversions counts the pairs of one that was passed and one that passed it:
// the passer began at least apart later, and ended at least apart earlier.
func inversions(passers, passed []Span, apart time.Duration) (pairs, most int) {
	latestFirst := func(a, b Span) int { return cmp.Compare(b.From, a.From) }
	slices.SortFunc(passers, latestFirst)
	slices.SortFunc(passed, latestFirst)
	var ends []time.Duration // of those who began late enough, the latest first
	latest := func(end, to time.Duration) int { return cmp.Compare(to, end) }
	for _, a := range passed {
		for len(passers) > 0 && passers[0].From >= a.From+apart {
			at, _ := slices.BinarySearchFunc(ends, passers[0].To, latest)
			ends = slices.Insert(ends, at, passers[0].To)
			passers = passers[1:]
		}
		first, _ := slices.BinarySearchFunc(ends, a.To-apart, latest)
		pairs += len(ends) - first
		most = max(most, len(ends)-first)
	}
	return pairs, most
}
