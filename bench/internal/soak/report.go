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
)

// Report is what a run came to.
type Report struct {
	Seconds  float64 `json:"seconds"`
	Seed     uint64  `json:"seed"`
	Names    int     `json:"names"`
	Limiters int     `json:"limiters"`
	Callers  int     `json:"callers"`

	Tally
	Faults map[string]int `json:"faults"`
	Losses int            `json:"losses_of_data"`

	Windows     int     `json:"windows_exceeded"`            // of slots, without a loss of data in between
	WindowsLoss int     `json:"windows_exceeded_after_loss"` // of slots, with one
	Overtakes   int     `json:"overtakes"`
	Early       int     `json:"early"`
	Strangers   int     `json:"let_through_without_a_turn"`
	Forgotten   int     `json:"turns_neither_used_nor_given_back"`
	Stuck       int     `json:"stuck"`
	WorstLateMS float64 `json:"worst_return_after_ctx_ms"`
	Goroutines  int     `json:"goroutines_left"`

	Broken []string `json:"broken"` // promises, in words
}

func (s *soak) sofar() Report {
	r := Report{
		Seconds: time.Since(s.began).Seconds(), Seed: s.Seed,
		Names: len(names), Limiters: len(s.limiters), Callers: len(s.limiters) * callers,
		Tally: Tally{Outcomes: map[string]int{}},
	}
	s.mu.Lock()
	r.Faults = maps.Clone(s.struck)
	s.mu.Unlock()
	for _, f := range faults {
		if f.loses {
			r.Losses += r.Faults[f.name]
		}
	}
	for _, n := range s.notes {
		n.mu.Lock()
		r.add(n.tally)
		n.mu.Unlock()
	}
	return r
}

// judge looks at everything that was noted. Nobody calls any more.
func (s *soak) judge() Report {
	r := s.sofar()
	stalls := s.bystander.Seen()
	for i, n := range s.notes {
		r.judge(names[i], n, s.bed.losses, stalls)
	}
	return r
}

// tolerance, in µs, is what clocks may differ by within the few seconds that a
// turn is ahead.
const tolerance = 1000

// judge holds what happened under a name against each promise.
func (r *Report) judge(of name, n *notes, losses []loss, stalls []measure.Stall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	windows := 0
	for _, w := range windowsOf(of.quotas, of.guard) {
		outside, after := exceeded(n.turns, w, losses)
		windows += outside
		r.WindowsLoss += after
	}
	early, strangers, forgotten := match(n.turns, n.arrivals, tolerance)
	stuck := 0
	for _, l := range n.lateness {
		late := l.To - l.From - measure.Stalled(stalls, l.From, l.To)
		r.WorstLateMS = max(r.WorstLateMS, measure.Milliseconds(late))
		if late > overdue {
			stuck++
		}
	}
	for _, broken := range []struct {
		all   *int
		count int
		what  string
	}{
		{&r.Windows, windows, "windows exceeded without a loss of data"},
		{&r.Overtakes, overtakes(n.turns, losses), "turns before one granted earlier"},
		{&r.Early, early, "callers before their turn"},
		{&r.Strangers, strangers, "callers without a turn"},
		{&r.Forgotten, max(0, forgotten-n.tally.cancelledLate), "turns neither used nor given back"},
		{&r.Stuck, stuck, "calls that came back long after their ctx had ended"},
	} {
		if *broken.all += broken.count; broken.count > 0 {
			r.Broken = append(r.Broken, fmt.Sprintf("%s: %d %s", of.about, broken.count, broken.what))
		}
	}
	for _, what := range n.tally.unexpected {
		r.Broken = append(r.Broken, of.about+": "+what)
	}
}

// Table writes the report for a person.
func (r Report) Table(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what string, value any, about string) { fmt.Fprintf(table, "%s\t%v\t%s\n", what, value, about) }
	gap := func() { fmt.Fprintln(table, "\t\t") }
	line("load", fmt.Sprintf("%.0f calls/s", float64(r.Calls)/max(r.Seconds, 1)), fmt.Sprintf(
		"%d names, %d limiters with a client each, %d callers, %.0f s, seed %d",
		r.Names, r.Limiters, r.Callers, r.Seconds, r.Seed))
	line("permits let through", r.Permits, "")
	gap()
	for _, f := range faults {
		about := ""
		if f.loses {
			about = "loses data"
		}
		line(f.name, r.Faults[f.name], about)
	}
	gap()
	line("windows exceeded", r.Windows, "of slots, goal 0")
	line("  across a loss of data", r.WindowsLoss, fmt.Sprintf("of slots, %d losses", r.Losses))
	line("overtakes", r.Overtakes, "goal 0")
	line("early", r.Early, "goal 0")
	line("without a turn", r.Strangers, "callers, goal 0")
	line("forgotten turns", r.Forgotten, "neither used nor given back, goal 0")
	line("stuck calls", r.Stuck, fmt.Sprintf("more than %v after their ctx, goal 0", overdue))
	line("goroutines left", r.Goroutines, "of the library, goal 0")
	gap()
	line("permits given back", r.Returned, "")
	line("permits lost, at most", r.Lost, "an answer was lost, or giving them back failed")
	gap()
	for _, kind := range slices.SortedFunc(maps.Keys(r.Outcomes), func(a, b string) int {
		return cmp.Compare(r.Outcomes[b], r.Outcomes[a])
	}) {
		line(kind, r.Outcomes[kind], fmt.Sprintf("%.1f %% of the calls", 100*float64(r.Outcomes[kind])/float64(r.Calls)))
	}
	for _, what := range r.Broken {
		fmt.Fprintln(table, "broken:", what)
	}
	if len(r.Broken) == 0 {
		fmt.Fprintln(table, "every promise was kept")
	}
	return table.Flush()
}
