// Package page writes a report as one HTML file that needs nothing but itself,
// and its pictures as files of their own.
package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"

	"github.com/fairlimit/fairlimit/bench/internal/compare/picture"
	"github.com/fairlimit/fairlimit/bench/internal/compare/report"
)

// Page is what a run of the program leaves to be looked at.
type Page struct {
	dir       string
	Command   string
	Simulated bool
	Scenarios []Scenario
}

// Scenario is one report and its pictures.
type Scenario struct {
	report.Report
	Door     picture.Drawing // all engines
	Pictures []picture.Set   // by engine
}

// SummaryHead and Summary are the table that stands first if there are several
// scenarios.
func (p *Page) SummaryHead() []string { return report.SummaryHead }

// Summary has a line for each scenario and engine.
func (p *Page) Summary() [][]string { return report.Summed(p.reports()) }

// SummaryLegend explains cells of the summary, if there is anything to explain.
func (p *Page) SummaryLegend() string { return report.SummaryLegend(p.reports()) }

func (p *Page) reports() (reports []report.Report) {
	for _, s := range p.Scenarios {
		reports = append(reports, s.Report)
	}
	return reports
}

//go:embed page.html.tmpl
var source string

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	// Package picture escapes the text that it did not write itself.
	"inline": func(d picture.Drawing) template.HTML { return template.HTML(d.Inline()) },
}).Parse(source))

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
func (p *Page) Add(r report.Report, door picture.Drawing, pictures []picture.Set) error {
	p.Scenarios = append(p.Scenarios, Scenario{r, door, pictures})
	p.Simulated = p.Simulated || r.Simulated
	if err := p.file(r.Scenario+"-door", door); err != nil {
		return err
	}
	for _, set := range pictures {
		for kind, drawing := range set.All() {
			if err := p.file(fmt.Sprintf("%s-%s-%s", r.Scenario, set.Engine, kind), drawing); err != nil {
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

func (p *Page) file(name string, d picture.Drawing) error {
	return os.WriteFile(filepath.Join(p.dir, name+".svg"), []byte(d.File()), 0o644)
}
