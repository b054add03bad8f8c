package measure

import (
	"cmp"
	"slices"
)

// withTurns are the calls, each with the turn that it took if its client's
// limiter told of turns. Those who went first took the first turns, among calls
// for as many permits: if any way to match them leaves nobody early, this does.
func withTurns(log Log) []Call {
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
		left := map[int][]Turn{} // by permits
		for _, t := range used {
			left[t.Permits] = append(left[t.Permits], t)
		}
		for _, c := range took[client] {
			if turns := left[c.Permits]; len(turns) > 0 {
				c.Turn, left[c.Permits] = &turns[0], turns[1:]
			}
		}
	}
	return calls
}
