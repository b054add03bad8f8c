package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// SummaryHead is what stands above the columns of a summary. The first two
// have no name: the scenario and the engine.
var SummaryHead = []string{"", "", "inversions", "overtake", "429s", "used", "starved", "early", "goal"}

// Summed are the lines of a summary: one for each scenario and engine. Only the
// first of a scenario names it.
func Summed(reports []Report) (lines [][]string) {
	for _, r := range reports {
		name := r.Scenario
		for _, e := range r.Engines {
			lines = append(lines, []string{
				name, e.Name,
				apart(e.Inversions, e.MachineInversions), strconv.Itoa(e.MaxOvertake),
				apart(e.UpstreamRejections, e.MachineRejections),
				percent(e.Utilization), short(e.LongestStarvedMS), early(e), r.verdict(e),
			})
			name = ""
		}
	}
	return lines
}

// Summary writes the lines for a person who has just seen many tables.
func Summary(w io.Writer, reports []Report) error {
	if len(reports) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%sall scenarios\n\n", reports[0].kind())
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, line := range slices.Concat([][]string{SummaryHead}, Summed(reports)) {
		fmt.Fprintln(table, strings.Join(line, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if legend := SummaryLegend(reports); legend != "" {
		fmt.Fprintf(w, "\n%s\n", legend)
	}
	return nil
}

// SummaryLegend is the first legend that there is.
func SummaryLegend(reports []Report) string {
	for _, r := range reports {
		if legend := r.Legend(); legend != "" {
			return legend
		}
	}
	return ""
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
	case e.Failed > 0:
		return fmt.Sprintf("met, %d failed", e.Failed)
	}
	return "met"
}
