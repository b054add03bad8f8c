package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
)

// Page is what a run of the program leaves to be looked at: one HTML file that
// needs nothing but itself, and its pictures as files of their own.
type Page struct {
	dir       string
	Command   string
	Simulated bool
	Scenarios []Scenario
}

// Scenario is one report and its pictures.
type Scenario struct {
	Report
	Pictures []Kind
}

// SummaryHead and Summary are the table that stands first if there are several
// scenarios.
func (p *Page) SummaryHead() []string { return SummaryHead }

// Summary has a line for each scenario and engine.
func (p *Page) Summary() [][]string { return Summed(p.reports()) }

// SummaryLegend explains cells of the summary, if there is anything to explain.
func (p *Page) SummaryLegend() string { return SummaryLegend(p.reports()) }

func (p *Page) reports() (reports []Report) {
	for _, s := range p.Scenarios {
		reports = append(reports, s.Report)
	}
	return reports
}

//go:embed page.html.tmpl
var source string

var layout = template.Must(template.New("page").Parse(source))

// In makes a page in a directory, which it makes if it is not there.
func In(dir, command string) (*Page, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("-out: %w: give a directory that can be written, or none for no pictures", err)
	}
	return &Page{dir: dir, Command: command}, nil
}

// Path is where the page is, once something was added.
func (p *Page) Path() string { return filepath.Join(p.dir, "index.html") }

// Add puts a scenario on the page and writes it, so that what was measured is
// there whatever comes next.
func (p *Page) Add(r Report, pictures []Kind) error {
	p.Scenarios = append(p.Scenarios, Scenario{r, pictures})
	p.Simulated = p.Simulated || r.Simulated
	for _, kind := range pictures {
		for _, d := range kind.Drawings {
			name := fmt.Sprintf("%s-%s-%s.svg", r.Scenario, d.Engine, kind.Name)
			if err := os.WriteFile(filepath.Join(p.dir, name), []byte(d.SVG), 0o644); err != nil {
				return err
			}
		}
	}
	var out bytes.Buffer
	if err := layout.Execute(&out, p); err != nil {
		return err
	}
	return os.WriteFile(p.Path(), out.Bytes(), 0o644)
}
