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
