package metrics

import (
	"cmp"
	"slices"
	"time"
)

// overtaking counts the pairs in which A called at least apart before B, both
// waited, and B reached the upstream at least apart before A. The second
// figure, most, is the largest number of Bs for one A. A call that the end of
// the run found waiting counts as an A that arrives no sooner than then.
//
// Waiting is being held up for at least apart. A always was, or B could not
// have been so far ahead of it.
func overtaking(calls []Call, apart time.Duration) (pairs, most int) {
	var passers, passed []Call
	for _, c := range calls {
		if c.Reached && c.Arrived-c.Called >= apart {
			passers = append(passers, c)
		}
		if c.Reached || c.Outcome == Waiting {
			passed = append(passed, c)
		}
	}
	latestCallFirst := func(a, b Call) int { return cmp.Compare(b.Called, a.Called) }
	slices.SortFunc(passers, latestCallFirst)
	slices.SortFunc(passed, latestCallFirst)

	arrivals := make([]time.Duration, len(passers))
	for i, b := range passers {
		arrivals[i] = b.Arrived
	}
	slices.Sort(arrivals)

	calledLater := make(tally, len(arrivals)+1)
	next := 0
	for _, a := range passed {
		for next < len(passers) && passers[next].Called >= a.Called+apart {
			rank, _ := slices.BinarySearch(arrivals, passers[next].Arrived)
			calledLater.add(rank)
			next++
		}
		ahead, _ := slices.BinarySearch(arrivals, a.gone()-apart+1)
		n := calledLater.below(ahead)
		pairs += n
		most = max(most, n)
	}
	return pairs, most
}

// promisedOvertaking counts the pairs that are in the wrong order by the
// questions and their answers. It takes everybody to have asked when it called,
// and to have reached the upstream when its turn came. What overtaking counts
// beyond them is the work of delays on the way.
func promisedOvertaking(calls []Call, apart time.Duration) int {
	var promised []Call
	for _, c := range calls {
		if c.Reached && c.Turn != nil {
			c.Called, c.Arrived = c.Turn.Sent, c.Turn.Sent+c.Turn.Wait
			promised = append(promised, c)
		}
	}
	pairs, _ := overtaking(promised, apart)
	return pairs
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
