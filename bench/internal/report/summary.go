package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Summary writes one line for each scenario and engine, for a person who has
// just seen many tables.
func Summary(w io.Writer, reports []Report) error {
	if len(reports) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%sall scenarios\n\n", reports[0].kind())
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\t\tinversions\tovertake\t429s\tused\tstarved\tearly\tgoal")
	for _, r := range reports {
		name := r.Scenario
		for _, e := range r.Engines {
			fmt.Fprintln(table, strings.Join([]string{
				name, e.Name,
				strconv.Itoa(e.Inversions), strconv.Itoa(e.MaxOvertake), strconv.Itoa(e.UpstreamRejections),
				percent(e.Utilization), short(e.LongestStarvedMS), early(e), r.verdict(e),
			}, "\t"))
			name = ""
		}
	}
	return table.Flush()
}

// verdict is a word about an engine that has a goal.
func (r Report) verdict(e Engine) string {
	switch {
	case r.Goal == nil:
		return "-"
	case e.Name != aimed:
		return ""
	case !r.Goal.Met:
		return "missed"
	case len(r.Goal.Exempt) > 0:
		return "met, but for what the guard did not cover"
	}
	return "met"
}
