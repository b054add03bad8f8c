package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// summarize writes a line for each scenario and engine, for a person who has
// just seen several tables.
func (p *Page) summarize(w io.Writer) error {
	if len(p.reports) < 2 {
		return nil
	}
	fmt.Fprintf(w, "\n%sall scenarios\n\n", p.reports[0].kind())
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\t\tinversions\tovertake\t429s\tused\tleast share\tstarved\tearly\tgoal")
	legend := ""
	for _, r := range p.reports {
		name := r.Scenario // only the first line of a scenario names it
		for _, e := range r.Engines {
			fmt.Fprintln(table, strings.Join([]string{
				name, e.Name,
				inversions(e), strconv.Itoa(e.MaxOvertake), rejections(e),
				percent(e.Utilization), percent(e.SmallestShare), starved(e), early(e), r.verdict(e),
			}, "\t"))
			name = ""
		}
		if l := r.legend(); l != "" {
			legend = "\n" + l + "\n"
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, legend)
	return err
}

// verdict is a word about an engine that has a goal.
func (r Report) verdict(e Engine) string {
	switch {
	case r.Goal == nil:
		return "-"
	case e.Name != r.aimed():
		return ""
	case !r.Goal.Met:
		return "missed"
	case e.Failed > 0:
		return fmt.Sprintf("met, %d failed", e.Failed)
	}
	return "met"
}
