package measure

import (
	"cmp"
	"slices"
	"time"
)

// The Span of a call is from when it waited, and until when, as its order is
// judged.

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

// brokenPromises counts the pairs of turns that an engine gave in the wrong
// order beyond doubt, by questions and answers alone: A had its answer before
// B's question was sent, and B's turn, at the latest that it can be, lies
// before A's at the earliest. No delay can do that.
func brokenPromises(calls []Call) int {
	var passers, passed []Span
	for _, c := range calls {
		if t := c.Turn; c.Reached && t != nil {
			passers = append(passers, Span{t.Sent, t.Due()})
			passed = append(passed, Span{t.Replied, t.atBest()})
		}
	}
	pairs, _ := inversions(passers, passed, promiseTolerance)
	return pairs
}

// promiseTolerance is what two clocks gain on each other while a turn is waited
// for, and what rounding adds.
const promiseTolerance = 2 * time.Millisecond

// inversions counts the pairs of one that was passed and one that passed it:
// the passer began at least apart later, and ended at least apart earlier.
func inversions(passers, passed []Span, apart time.Duration) (pairs, most int) {
	latestFirst := func(a, b Span) int { return cmp.Compare(b.From, a.From) }
	slices.SortFunc(passers, latestFirst)
	slices.SortFunc(passed, latestFirst)

	ends := make([]time.Duration, len(passers))
	for i, b := range passers {
		ends[i] = b.To
	}
	slices.Sort(ends)

	later := make(tally, len(ends)+1)
	next := 0
	for _, a := range passed {
		for next < len(passers) && passers[next].From >= a.From+apart {
			rank, _ := slices.BinarySearch(ends, passers[next].To)
			later.add(rank)
			next++
		}
		ahead, _ := slices.BinarySearch(ends, a.To-apart+1)
		n := later.below(ahead)
		pairs += n
		most = max(most, n)
	}
	return pairs, most
}

// tally is a Fenwick tree: how many of the ranks added so far lie below a given
// one, in logarithmic time.
type tally []int

func (t tally) add(rank int) {
	for i := rank + 1; i < len(t); i += i & -i {
		t[i]++
	}
}

func (t tally) below(rank int) (n int) {
	for i := rank; i > 0; i -= i & -i {
		n += t[i]
	}
	return n
}
