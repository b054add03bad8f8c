package speed

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

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
