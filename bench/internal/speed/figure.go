package speed

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Figure is one line of the table.
type Figure struct {
	Row  string  `json:"row"`
	What string  `json:"what"`
	Unit string  `json:"unit"`
	Ours float64 `json:"ours"` // the median of the rounds

	// Ratio is ours ÷ yardstick: the median of the rounds' ratios. Middle holds
	// those of half of the rounds; a quarter lies on either side.
	Yardstick string      `json:"yardstick,omitempty"`
	Known     *float64    `json:"yardstick_value,omitempty"`
	Ratio     *float64    `json:"ratio,omitempty"`
	Middle    *[2]float64 `json:"middle_half,omitempty"`

	Goal *Goal `json:"goal,omitempty"`
	Met  *bool `json:"met,omitempty"`
}

// Goal is what a ratio is held against, or a figure of ours without a yardstick.
type Goal struct {
	Sense string  `json:"sense"` // "at most" or "at least"
	Bound float64 `json:"bound"`
}

func atMost(bound float64) Goal  { return Goal{"at most", bound} }
func atLeast(bound float64) Goal { return Goal{"at least", bound} }

func (g Goal) met(x float64) bool {
	if g.Sense == "at most" {
		return x <= g.Bound
	}
	return x >= g.Bound
}

// figure is the row's, of the values of all rounds. Known is empty without a
// yardstick.
func (r row) figure(known, ours []float64) Figure {
	f := Figure{Row: r.group, What: r.what, Unit: r.unit, Ours: quantile(ours, 0.5)}
	judged := f.Ours
	if len(known) > 0 {
		ratios := make([]float64, len(ours))
		for i := range ratios {
			ratios[i] = ours[i] / known[i]
		}
		median, ratio := quantile(known, 0.5), quantile(ratios, 0.5)
		f.Yardstick, f.Known, f.Ratio = r.yardstick, &median, &ratio
		f.Middle = &[2]float64{quantile(ratios, 0.25), quantile(ratios, 0.75)}
		judged = ratio
	}
	if r.goal.Sense != "" {
		met := r.goal.met(judged)
		f.Goal, f.Met = &r.goal, &met
	}
	return f
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Table writes the figures for a person.
func Table(w io.Writer, figures []Figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tyardstick\t\tours\tratio\tmiddle half\tgoal")
	for _, f := range figures {
		fmt.Fprintln(table, strings.Join(f.cells(), "\t"))
	}
	return table.Flush()
}

// cells are empty where there is nothing to be said.
func (f Figure) cells() []string {
	var known, ratio, middle, goal string
	unit := f.Unit
	if f.Ratio != nil {
		known, ratio = digits(*f.Known)+" "+f.Unit, digits(*f.Ratio)+" ×"
		middle, unit = digits(f.Middle[0])+"–"+digits(f.Middle[1]), "×"
	}
	if f.Goal != nil {
		outcome := "missed"
		if *f.Met {
			outcome = "met"
		}
		goal = fmt.Sprintf("%s %v %s, %s", f.Goal.Sense, f.Goal.Bound, unit, outcome)
	}
	return []string{f.What, f.Yardstick, known, digits(f.Ours) + " " + f.Unit, ratio, middle, goal}
}

// digits are as many as matter.
func digits(x float64) string {
	if math.Abs(x) < 1000 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}
