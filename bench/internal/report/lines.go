package report

import "fmt"

// Line is one line of the table, for whoever sets it another way.
type Line struct {
	Name  string
	Cells []string // one an engine
	Note  string
}

// Lines are the table.
func (r Report) Lines() (lines []Line) {
	for _, row := range r.rows() {
		line := Line{Name: row.name, Note: row.note}
		for _, e := range r.Engines {
			line.Cells = append(line.Cells, row.cell(e))
		}
		lines = append(lines, line)
	}
	return lines
}

// About is what the scenario is.
func (r Report) About() string { return r.about }

// Facts are what was asked for.
func (r Report) Facts() []string {
	facts := []string{
		r.people(), r.Backend, fmt.Sprintf("quota %d per %s", r.Quota.Permits, short(r.Quota.PerMS)),
		fmt.Sprintf("%.0f s on each engine", r.Seconds), fmt.Sprintf("seed %d", r.Seed),
	}
	if guard := r.guard("%s"); guard != "" {
		facts = append(facts, guard)
	}
	if r.Quota.Burst > 0 {
		facts = append(facts, fmt.Sprintf("burst %d", r.Quota.Burst))
	}
	return facts
}

// Remarks are what the figures call for, with the engine they are of.
func (r Report) Remarks() (remarks []string) {
	for _, e := range r.Engines {
		for _, remark := range r.remarks(e) {
			remarks = append(remarks, e.Name+": "+remark)
		}
	}
	return remarks
}
