package measure

import (
	"cmp"
	"slices"
)

// withTurns are the calls, each with the turn that it took if its client's
// limiter told of turns. Those who went first took the first turns, among calls
// for as much: if any way to match them leaves nobody early, this does.
func withTurns(log Log) []Call {
	type amounts struct{ permits, input, output int }
	calls := slices.Clone(log.Calls)
	took := make([][]*Call, len(log.Callers))
	for i, c := range calls {
		if c.Outcome == Granted && c.Turn == nil {
			took[c.Client] = append(took[c.Client], &calls[i])
		}
	}
	for client, told := range log.Told {
		used := told.used()
		slices.SortStableFunc(used, func(a, b Turn) int { return cmp.Compare(a.atBest(), b.atBest()) })
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
