package measure

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/internal/model"
)

// WithTurns are the calls, each with the turn that it took if its client's
// limiter told of turns. Those who went first took the first turns, among calls
// for as much: if any way to match them leaves nobody early, this does.
func WithTurns(log Log) []Call {
	type amounts struct{ permits, input, output int }
	calls := slices.Clone(log.Calls)
	took := make([][]*Call, len(log.Callers))
	for i, c := range calls {
		if c.Outcome == Granted && c.Turn == nil {
			took[c.Client] = append(took[c.Client], &calls[i])
		}
	}
	for client, told := range log.Told {
		used := told.Used()
		slices.SortStableFunc(used, func(a, b Turn) int {
			return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.atBest(), b.atBest()))
		})
		slices.SortStableFunc(took[client], func(a, b *Call) int { return cmp.Compare(a.Ended, b.Ended) })
		left := map[amounts][]Turn{}
		for _, t := range used {
			of := amounts{t.Permits, t.Input, t.Output}
			left[of] = append(left[of], t)
		}
		for _, c := range took[client] {
			of := amounts{permits: c.Permits}
			if c.Tokens != nil {
				of.input, of.output = c.Tokens.Input, c.Tokens.Reserved
			}
			if turns := left[of]; len(turns) > 0 {
				c.Turn, left[of] = &turns[0], turns[1:]
			}
		}
	}
	return calls
}

// Disordered counts the pairs of turns that an engine gave in the wrong order: A
// is held, and B was decided after it, and has a slot before A's. Of two
// decisions of one moment nobody knows which came first.
func Disordered(given, held []Turn) (pairs int) {
	pairs, _ = inversions(decisions(given), decisions(held), 1)
	return pairs
}

func decisions(turns []Turn) (spans []Span) {
	for _, t := range turns {
		spans = append(spans, Span{time.Duration(t.Decided), time.Duration(t.Slot)})
	}
	return spans
}

// Overfull counts the windows of slots that hold too much.
func Overfull(turns []Turn, w model.Window, of func(Turn) int) (windows int) {
	slots := make([]model.Turn, len(turns))
	for i, t := range turns {
		slots[i] = model.Turn{Slot: t.Slot, N: of(t)}
	}
	slices.SortFunc(slots, func(a, b model.Turn) int { return cmp.Compare(a.Slot, b.Slot) })
	w.Overfull(slots, func(int, int) { windows++ })
	return windows
}

// Permits are those of a turn.
func Permits(t Turn) int { return t.Permits }

// taken are the turns of those who reached the upstream. Of the output that a
// turn reserved, what was not used is given back.
func taken(calls []Call) (turns []Turn) {
	for _, c := range calls {
		if c.Reached && c.Turn != nil {
			t := *c.Turn
			if c.Tokens != nil {
				t.Input, t.Output = c.Tokens.Input, min(c.Tokens.Output, c.Tokens.Reserved)
			}
			turns = append(turns, t)
		}
	}
	return turns
}

// excess counts the windows that hold more than the guarded quota of any unit.
// Output that nobody reserved is not the limiter's.
func (r Rule) excess(turns []Turn) (windows int) {
	count := func(quota int, of func(Turn) int) {
		windows += Overfull(turns, model.Window{Permits: quota, Length: r.period().Microseconds()}, of)
	}
	count(r.Permits, Permits)
	if r.Output > 0 {
		count(r.Input, func(t Turn) int { return t.Input })
		count(r.Output, func(t Turn) int { return t.Output })
	}
	return windows
}

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
