package soak

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

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
