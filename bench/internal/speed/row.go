package speed

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one thing that is measured in rounds: a yardstick and ours in turn.
type row struct {
	group     string // what -rows calls it
	what      string
	yardstick string // empty without one
	rounds    int    // times those of the scale; one in any case
	unit      string
	goal      Goal // of each figure

	known, ours side // known may be nil
}

// side makes ready what a row measures on one side.
type side func(context.Context, *bed) (probe, error)

// parts are the figures of a row that has several, in the words before what the
// row is called.
var parts = [...]string{"server, back to back: ", "whole call, back to back: ", "server, cold: "}

// probe is one round of one side: a value for each figure of the row.
type probe func(context.Context) ([]float64, error)

// measure returns the row's figures.
func (r row) measure(ctx context.Context, b *bed) (figures []Figure, err error) {
	known, ours, err := r.inTurn(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}
	for i := range ours[0] {
		f := Figure{Row: r.group, What: r.what, Unit: r.unit, Ours: quantile(column(ours, i), 0.5)}
		if len(ours[0]) > 1 {
			f.What = parts[i] + f.What
		}
		if known != nil {
			f = f.beside(r.yardstick, column(known, i), column(ours, i))
		}
		figures = append(figures, f.against(r.goal))
	}
	return figures, nil
}

// inTurn measures round by round. Who comes first changes from round to round,
// so that a machine that gets slower or faster meanwhile favours neither.
func (r row) inTurn(ctx context.Context, b *bed) (known, ours [][]float64, err error) {
	var probes [2]probe
	for i, s := range [2]side{r.known, r.ours} {
		if s == nil {
			continue
		}
		if probes[i], err = s(ctx, b); err != nil {
			return nil, nil, err
		}
	}
	var values [2][][]float64
	for round := range max(1, r.rounds*b.Rounds) {
		for _, i := range [2]int{round % 2, 1 - round%2} {
			if probes[i] == nil {
				continue
			}
			got, err := probes[i](ctx)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return nil, nil, err
			}
			values[i] = append(values[i], got)
		}
	}
	return values[0], values[1], nil
}

// column is one figure of all rounds.
func column(rounds [][]float64, i int) (values []float64) {
	for _, round := range rounds {
		values = append(values, round[i])
	}
	return values
}

// quantile is 0 of nothing.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Figure is one line of the table.
type Figure struct {
	Row  string `json:"row"`
	What string `json:"what"`
	Unit string `json:"unit"`

	Yardstick string   `json:"yardstick,omitempty"` // what it is; empty where there is none
	Known     *float64 `json:"yardstick_value,omitempty"`
	Ours      float64  `json:"ours"`

	// Ratio is ours ÷ yardstick: the median of the rounds' ratios. Middle holds
	// those of half of the rounds; a quarter lies on either side.
	Ratio  *float64    `json:"ratio,omitempty"`
	Middle *[2]float64 `json:"middle_half,omitempty"`

	Goal *Goal `json:"goal,omitempty"`
	Met  *bool `json:"met,omitempty"`
}

// Goal is what a figure is held against.
type Goal struct {
	Of    string  `json:"of"`    // "ratio" or "ours"
	Sense string  `json:"sense"` // "at most" or "at least"
	Bound float64 `json:"bound"`
}

const (
	ofRatio = "ratio"
	ofOurs  = "ours"
	atMost  = "at most"
	atLeast = "at least"
)

func ratioAtMost(bound float64) Goal  { return Goal{ofRatio, atMost, bound} }
func ratioAtLeast(bound float64) Goal { return Goal{ofRatio, atLeast, bound} }
func oursAtMost(bound float64) Goal   { return Goal{ofOurs, atMost, bound} }

// beside puts the figure beside the rounds of a yardstick. There is no ratio to
// a yardstick that was 0 in a round.
func (f Figure) beside(yardstick string, known, ours []float64) Figure {
	median := quantile(known, 0.5)
	f.Yardstick, f.Known = yardstick, &median
	ratios := make([]float64, len(ours))
	for i := range ratios {
		if known[i] == 0 {
			return f
		}
		ratios[i] = ours[i] / known[i]
	}
	ratio := quantile(ratios, 0.5)
	f.Ratio, f.Middle = &ratio, &[2]float64{quantile(ratios, 0.25), quantile(ratios, 0.75)}
	return f
}

// against holds the figure against a goal, if there is one. A figure without
// what the goal is of misses it.
func (f Figure) against(g Goal) Figure {
	if g.Of == "" {
		return f
	}
	value, known := f.Ours, g.Of == ofOurs
	if g.Of == ofRatio && f.Ratio != nil {
		value, known = *f.Ratio, true
	}
	met := known && (g.Sense == atMost && value <= g.Bound || g.Sense == atLeast && value >= g.Bound)
	f.Goal, f.Met = &g, &met
	return f
}

// Scale is how much is measured.
type Scale struct {
	Rounds  int           // of yardstick and ours in turn
	Round   time.Duration // how long each of the two is measured in a round, where time counts
	Calls   int           // how often each of the two is called in a round, where calls count
	Window  time.Duration // that is filled before a crowded queue is measured
	Callers int           // on one name at once
	Queue   [2]int        // short and long, in turns
}

// Full is what the figures in the documentation were measured with.
var Full = Scale{
	Rounds: 7, Round: 500 * time.Millisecond, Calls: 400, Window: time.Second,
	Callers: 1024, Queue: [2]int{1000, 100_000},
}

// Quick is for a look in between: fewer and shorter rounds of the same.
var Quick = Scale{
	Rounds: 3, Round: 300 * time.Millisecond, Calls: 200, Window: time.Second,
	Callers: 1024, Queue: [2]int{1000, 100_000},
}

// Table writes the figures for a person.
func Table(w io.Writer, figures []Figure) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tyardstick\t\tours\tratio\tmiddle half\tgoal\t")
	for i, f := range figures {
		if i > 0 && f.Row != figures[i-1].Row {
			fmt.Fprintln(table, "\t\t\t\t\t\t\t")
		}
		fmt.Fprintln(table, strings.Join(f.cells(), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// cells are empty where there is nothing to be said.
func (f Figure) cells() []string {
	var known, ratio, middle, goal, outcome string
	if f.Known != nil {
		known = amount(*f.Known, f.Unit)
	}
	if f.Ratio != nil {
		ratio, middle = digits(*f.Ratio)+" ×", digits(f.Middle[0])+"–"+digits(f.Middle[1])
	}
	if f.Goal != nil {
		unit := f.Unit
		if f.Goal.Of == ofRatio {
			unit = "×"
		}
		goal = strings.TrimSpace(fmt.Sprintf("%s %v %s", f.Goal.Sense, f.Goal.Bound, unit))
		outcome = "missed"
		if *f.Met {
			outcome = "met"
		}
	}
	return []string{f.What, f.Yardstick, known, amount(f.Ours, f.Unit), ratio, middle, goal, outcome}
}

// amount is a number with as many digits as matter, and its unit.
func amount(x float64, unit string) string { return strings.TrimSpace(digits(x) + " " + unit) }

func digits(x float64) string {
	if math.Abs(x) < 1000 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return grouped(int64(math.Round(x)))
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
