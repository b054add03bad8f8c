package soak

import (
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/internal/model"
)

// loss is a time in which Redis lost what it held, in µs of the machine's wall
// clock, which Redis and its clients share here.
type loss struct{ from, to int64 }

// stretch are the turns that were decided after one loss and before the next.
func stretch(turns []measure.Turn, losses []loss, i int) []measure.Turn {
	return slices.DeleteFunc(slices.Clone(turns), func(t measure.Turn) bool {
		return i > 0 && t.Decided <= losses[i-1].to || i < len(losses) && t.Decided >= losses[i].from
	})
}

// log is what was noted, with a client for each limiter.
func (n *notes) log() (log measure.Log) {
	log.Callers = make([]int, len(n.turns))
	for limiter := range n.turns {
		log.Told = append(log.Told, n.turns[limiter].Told())
	}
	log.Calls = n.went
	return log
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
