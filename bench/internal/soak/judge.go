package soak

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
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
	stalls := s.bystander.Close()
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

// What is counted, as the report calls it.
const (
	calls      = "calls"
	letThrough = "permits let through"
	givenBack  = "permits given back"
	lost       = "permits lost, at most"
	exceeded   = "windows exceeded"
	acrossLoss = "  across a loss of data"
	overtaken  = "overtakes"
	early      = "early"
	strangers  = "without a turn"
	forgotten  = "forgotten turns"
	stuck      = "stuck calls"
	leaked     = "goroutines left"
	notHeld    = "given back, not held"
)

// Report is what a run came to.
type Report struct {
	Seconds  float64        `json:"seconds"`
	Seed     uint64         `json:"seed"`
	Counts   map[string]int `json:"counts"`
	Faults   map[string]int `json:"faults"`
	Outcomes map[string]int `json:"outcomes"` // of calls
	Losses   int            `json:"losses_of_data"`
	Broken   []string       `json:"broken"` // promises, in words
}

// Table writes the report for a person.
func (r Report) Table(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what string, value any, about string) { fmt.Fprintf(table, "%s\t%v\t%s\n", what, value, about) }
	limiters := len(names) * len(ways)
	line("load", fmt.Sprintf("%.0f calls/s", float64(r.Counts[calls])/max(r.Seconds, 1)), fmt.Sprintf(
		"%d names, %d limiters with a client each, %d callers, %.0f s, seed %d",
		len(names), limiters, limiters*callers, r.Seconds, r.Seed))
	for _, f := range faults {
		line(f.name, r.Faults[f.name], map[bool]string{true: "loses data"}[f.loses])
	}
	for _, count := range [][2]string{
		{exceeded, "of slots, goal 0"},
		{acrossLoss, fmt.Sprintf("of slots, %d losses", r.Losses)},
		{overtaken, "goal 0"},
		{early, "goal 0"},
		{strangers, "callers, goal 0"},
		{forgotten, "neither used nor given back, goal 0"},
		{stuck, fmt.Sprintf("more than %v after their ctx, goal 0", overdue)},
		{leaked, "of the library, goal 0"},
		{letThrough, ""},
		{givenBack, ""},
		{lost, "an answer was lost, or giving them back failed"},
	} {
		line(count[0], r.Counts[count[0]], count[1])
	}
	for _, kind := range slices.SortedFunc(maps.Keys(r.Outcomes), func(a, b string) int {
		return cmp.Compare(r.Outcomes[b], r.Outcomes[a])
	}) {
		part := 100 * float64(r.Outcomes[kind]) / float64(r.Counts[calls])
		line(kind, r.Outcomes[kind], fmt.Sprintf("%.1f %% of the calls", part))
	}
	for _, what := range r.Broken {
		fmt.Fprintln(table, "broken:", what)
	}
	if len(r.Broken) == 0 {
		fmt.Fprintln(table, "every promise was kept")
	}
	return table.Flush()
}
