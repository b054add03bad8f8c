package soak

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/fairlimit/fairlimit/internal/model"
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

	// These two are of slots: Windows without a loss of data in between,
	// WindowsLoss with one.
	Windows     int `json:"windows_exceeded"`
	WindowsLoss int `json:"windows_exceeded_after_loss"`

	// These two are of arrivals whose turns were decided without a loss in
	// between. Upstream is of those under a guard that came within the guard
	// after their slots. UpstreamLate is of all.
	Upstream     int `json:"upstream_exceeded"`
	UpstreamLate int `json:"upstream_exceeded_by_delay"`

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
		Names: len(names), Limiters: len(s.limiters), Callers: len(s.limiters) * callers, Tally: Tally{Outcomes: map[string]int{}},
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
	const clocks = 200 // µs; a turn is at most some seconds ahead, and clocks differ by 100 ppm
	tolerance := clocks + s.drift.look()
	r := s.sofar()
	for i, n := range s.notes {
		broken := func(count int, what string) {
			if count > 0 {
				r.Broken = append(r.Broken, fmt.Sprintf("%s: %d %s", names[i].about, count, what))
			}
		}
		n.mu.Lock()
		turns, arrivals, tally := n.turns, n.arrivals, n.tally
		n.mu.Unlock()
		guard := names[i].guard.Microseconds()
		matched, strangers, forgotten := pairs(turns, arrivals)
		forgotten = max(0, forgotten-tally.cancelledLate)
		var windows, upstream int
		for _, w := range windowsOf(names[i].quotas) {
			inTime, _ := exceeded(punctual(matched, guard), w, s.bed.losses)
			all, _ := exceeded(punctual(matched, math.MaxInt64), w, s.bed.losses)
			upstream += inTime
			r.UpstreamLate += all
		}
		for _, w := range guarded(names[i]) {
			outside, after := exceeded(slots(turns), w, s.bed.losses)
			windows += outside
			r.WindowsLoss += after
		}
		over := overtakes(turns, s.bed.losses)
		soon := early(matched, tolerance)
		if guard == 0 {
			upstream = 0 // nothing is promised
		}
		r.Windows, r.Upstream = r.Windows+windows, r.Upstream+upstream
		r.Overtakes, r.Early = r.Overtakes+over, r.Early+soon
		r.Strangers, r.Forgotten = r.Strangers+strangers, r.Forgotten+forgotten
		broken(windows, "windows exceeded without a loss of data")
		broken(upstream, "windows exceeded at the upstream, nobody later than the guard")
		broken(over, "turns before one granted earlier")
		broken(soon, "callers before their turn")
		broken(strangers, "callers without a turn")
		broken(forgotten, "turns neither used nor given back")
		for _, what := range tally.unexpected {
			r.Broken = append(r.Broken, names[i].about+": "+what)
		}
	}
	stuck, worst := s.watch.stuck()
	r.Stuck, r.WorstLateMS = len(stuck), float64(worst.Microseconds())/1000
	r.Broken = append(r.Broken, stuck[:min(len(stuck), 10)]...)
	return r
}

// guarded are the windows of a name with its guard.
func guarded(n name) []model.Window {
	quotas := slices.Clone(n.quotas)
	for i := range quotas {
		quotas[i].Per += n.guard
	}
	return windowsOf(quotas)
}

// Table writes the report for a person.
func (r Report) Table(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what string, value any, about string) { fmt.Fprintf(table, "%s\t%v\t%s\n", what, value, about) }
	line("load", fmt.Sprintf("%.0f calls/s", float64(r.Calls)/max(r.Seconds, 1)), fmt.Sprintf(
		"%d names, %d limiters with a client each, %d callers, %.0f s, seed %d",
		r.Names, r.Limiters, r.Callers, r.Seconds, r.Seed))
	line("permits let through", r.Permits, "")
	fmt.Fprintln(table, "\t\t")
	for _, f := range faults {
		about := ""
		if f.loses {
			about = "loses data"
		}
		line(f.name, r.Faults[f.name], about)
	}
	fmt.Fprintln(table, "\t\t")
	line("windows exceeded", r.Windows, "of slots, goal 0")
	line("  across a loss of data", r.WindowsLoss, fmt.Sprintf("of slots, %d losses", r.Losses))
	line("  at the upstream", r.Upstream, "of arrivals under a guard, no later than it after their slots, goal 0")
	line("  by delay", r.UpstreamLate, "of arrivals, however late: a server stopped, a reply held up")
	line("overtakes", r.Overtakes, "goal 0")
	line("early", r.Early, "goal 0")
	line("without a turn", r.Strangers, "callers, goal 0")
	line("forgotten turns", r.Forgotten, "neither used nor given back, goal 0")
	line("stuck calls", r.Stuck, fmt.Sprintf(
		"more than %v after their ctx, goal 0; the worst that was looked at %.1f ms", overdue, r.WorstLateMS))
	line("goroutines left", r.Goroutines, "of the library, goal 0")
	fmt.Fprintln(table, "\t\t")
	line("permits given back", r.Returned, "")
	line("permits lost, at most", r.Open+r.ReturnsOpen+r.ReturnsFailed, fmt.Sprintf(
		"%d whose answer was lost, %d whose return's was, %d whose return did not reach Redis",
		r.Open, r.ReturnsOpen, r.ReturnsFailed))
	fmt.Fprintln(table, "\t\t")
	kinds := slices.SortedFunc(maps.Keys(r.Outcomes), func(a, b string) int {
		return cmp.Compare(r.Outcomes[b], r.Outcomes[a])
	})
	for _, kind := range kinds {
		part := 100 * float64(r.Outcomes[kind]) / float64(r.Calls)
		line(kind, r.Outcomes[kind], fmt.Sprintf("%.1f %% of the calls", part))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, what := range r.Broken {
		fmt.Fprintln(w, "broken:", what)
	}
	if len(r.Broken) == 0 {
		fmt.Fprintln(w, "every promise was kept")
	}
	return nil
}

func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}
