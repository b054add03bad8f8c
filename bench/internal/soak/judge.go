package soak

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/internal/model"
)

// judge looks at everything that was noted. Nobody calls any more.
func (s *soak) judge() Report {
	r := Report{
		Seconds: time.Since(s.began).Seconds(), Seed: s.Seed, Faults: s.struck, Losses: len(s.bed.losses),
		Counts: map[string]int{}, Outcomes: map[string]int{},
	}
	stalls := s.bystander.Seen()
	for i, n := range s.notes {
		r.judge(names[i], n, s.bed.losses, stalls)
	}
	return r
}

// judge holds what happened under a name against each promise.
func (r *Report) judge(of name, n *notes, losses []loss, stalls []measure.Stall) {
	log := n.log()
	for kind, count := range n.outcomes {
		r.Outcomes[kind] += count
		r.Counts[calls] += count
	}
	for _, c := range log.Calls {
		r.Counts[letThrough] += c.Permits
	}
	for _, told := range log.Told {
		r.Counts[givenBack] += told.GivenBack
		r.Counts[lost] += told.Lost
	}
	count := broken(of.windows(), log, losses)
	r.Counts[acrossLoss] += count[acrossLoss]
	delete(count, acrossLoss)
	count[forgotten] = max(0, count[forgotten]-n.cancelledLate)
	for _, l := range n.lateness {
		if l.To-l.From-measure.Stalled(stalls, l.From, l.To) > overdue {
			count[stuck]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		if r.Counts[what] += count[what]; count[what] > 0 {
			r.Broken = append(r.Broken, fmt.Sprintf("%s: %s: %d", of.about, what, count[what]))
		}
	}
	for _, what := range n.unexpected {
		r.Broken = append(r.Broken, of.about+": "+what)
	}
}

// loss is a time in which Redis lost what it held, in µs of the machine's wall
// clock, which Redis and its clients share here.
type loss struct{ from, to int64 }

// stretch are the turns that were decided after one loss and before the next.
func stretch(turns []measure.Turn, losses []loss, i int) []measure.Turn {
	return slices.DeleteFunc(slices.Clone(turns), func(t measure.Turn) bool {
		return i > 0 && t.Decided <= losses[i-1].to || i < len(losses) && t.Decided >= losses[i].from
	})
}

// tolerance is what clocks may differ by within the few seconds that a turn is
// ahead.
const tolerance = time.Millisecond

// broken counts how often a promise was broken to the limiters of a log. Windows
// whose turns were decided before and after a loss count apart, and turns of
// both sides have no order.
func broken(windows []model.Window, log measure.Log, losses []loss) map[string]int {
	var given, held []measure.Turn
	count := map[string]int{}
	for _, told := range log.Told {
		given, held = append(given, told.Turns...), append(held, told.Used()...)
		count[notHeld] += told.Strange
		count[overtaken] += told.Backwards
	}
	for i := range len(losses) + 1 {
		count[overtaken] += measure.Disordered(stretch(given, losses, i), stretch(held, losses, i))
		for _, w := range windows {
			count[exceeded] += measure.Overfull(stretch(held, losses, i), w, measure.Permits)
		}
	}
	for _, w := range windows {
		count[acrossLoss] += measure.Overfull(held, w, measure.Permits)
	}
	count[acrossLoss] = max(0, count[acrossLoss]-count[exceeded])
	count[forgotten] = len(held)
	for _, c := range measure.WithTurns(log) {
		switch {
		case c.Turn == nil:
			count[strangers]++
			continue
		case c.Ended < time.Duration(c.Turn.Slot)*time.Microsecond-tolerance:
			count[early]++
		}
		count[forgotten]--
	}
	return count
}
