package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/run"
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

//go:embed page.html.tmpl
var source string

var layout = template.Must(template.New("page").Parse(source))

// In makes a page in a directory, which it makes if it is not there. For "none"
// there is no page, and for "" the directory is a new one.
func In(dir, command string) (*Page, error) {
	p := &Page{dir: dir, Command: command}
	var err error
	switch dir {
	case "none":
	case "":
		p.dir, err = os.MkdirTemp("", "fairlimit-bench-")
	default:
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("-out: %w: give a directory that can be written, or none for no pictures", err)
	}
	return p, nil
}

// Path is where the page is, once something was added.
func (p *Page) Path() string { return filepath.Join(p.dir, "index.html") }

// Add puts a scenario on the page and writes it, so that what was measured is
// there whatever comes next.
func (p *Page) Add(r Report, results []*run.Result) error {
	var runs []Run
	for _, one := range results {
		caption := plural(one.Figures.Inversions, "pair in the wrong order", "pairs in the wrong order")
		if machines := one.Figures.MachineInversions; machines > 0 {
			caption += fmt.Sprintf(", and %d by the machine", machines)
		}
		runs = append(runs, Run{one.Trial.Engine.Name, caption, r.Simulated, one.Log})
	}
	p.Simulated = p.Simulated || r.Simulated
	if p.dir == "none" {
		p.Scenarios = append(p.Scenarios, Scenario{Report: r})
		return nil
	}
	pictures, err := Draw(runs, time.Duration(r.ApartMS*float64(time.Millisecond)))
	if err != nil {
		return err
	}
	p.Scenarios = append(p.Scenarios, Scenario{r, pictures})
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

// Tell says where the page is, after a table of all scenarios if there are
// several.
func (p *Page) Tell(w io.Writer, several bool) error {
	if len(p.Scenarios) == 0 {
		return nil
	}
	if several {
		if err := p.summarize(w); err != nil {
			return err
		}
	}
	if p.dir != "none" {
		fmt.Fprintf(w, "\nall figures and pictures: %s\n", p.Path())
	}
	return nil
}
