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
func (p *Page) SummaryHead() []string {
	return []string{"", "", "inversions", "overtake", "429s", "used", "starved", "early", "goal"}
}

// Summary has a line for each scenario and engine. Only the first of a scenario
// names it.
func (p *Page) Summary() (lines [][]string) {
	for _, r := range p.Scenarios {
		name := r.Scenario
		for _, e := range r.Engines {
			lines = append(lines, []string{
				name, e.Name,
				inversions(e), strconv.Itoa(e.MaxOvertake), rejections(e),
				percent(e.Utilization), starved(e), early(e), r.verdict(e),
			})
			name = ""
		}
	}
	return lines
}

// summarize writes the summary for a person who has just seen many tables.
func (p *Page) summarize(w io.Writer) error {
	fmt.Fprintf(w, "\n%sall scenarios\n\n", p.Scenarios[0].kind())
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, line := range slices.Concat([][]string{p.SummaryHead()}, p.Summary()) {
		fmt.Fprintln(table, strings.Join(line, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if legend := p.SummaryLegend(); legend != "" {
		fmt.Fprintf(w, "\n%s\n", legend)
	}
	return nil
}

// SummaryLegend is the first legend that there is.
func (p *Page) SummaryLegend() string {
	for _, r := range p.Scenarios {
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
