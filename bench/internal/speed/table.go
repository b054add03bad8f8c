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
	var row string
	for _, f := range figures {
		if row != "" && f.Row != row {
			fmt.Fprintln(table, "\t\t\t\t\t\t\t")
		}
		row = f.Row
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			f.What, f.Yardstick, f.known(), amount(f.Ours, f.Unit), f.ratio(), f.middle(), f.goal(), f.outcome())
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

func (f Figure) known() string {
	if f.Known == nil {
		return ""
	}
	return amount(*f.Known, f.Unit)
}

func (f Figure) ratio() string {
	if f.Ratio == nil {
		return ""
	}
	return digits(*f.Ratio) + " ×"
}

func (f Figure) middle() string {
	if f.Middle == nil {
		return ""
	}
	return digits(f.Middle[0]) + "–" + digits(f.Middle[1])
}

func (f Figure) goal() string {
	if f.Goal == nil {
		return ""
	}
	bound := strconv.FormatFloat(f.Goal.Bound, 'f', -1, 64)
	if f.Goal.Of == ofRatio {
		return f.Goal.Sense + " " + bound + " ×"
	}
	return strings.TrimSpace(f.Goal.Sense + " " + bound + " " + f.Unit)
}

func (f Figure) outcome() string {
	switch {
	case f.Met == nil:
		return ""
	case !*f.Met:
		return "missed"
	default:
		return "met"
	}
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
