package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"

	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// Page is what a run of the program leaves to be looked at: an HTML file with
// all tables and pictures, and each picture as a file of its own.
type Page struct {
	dir   string
	parts []part
}

// part is one scenario: its table as a person reads it, and its pictures.
type part struct {
	Scenario, Table string
	Pictures        []Drawing
}

//go:embed page.html
var pageText string

var layout = template.Must(template.New("page").Parse(pageText))

// In makes a page in a directory, which it makes if it is not there. For "none"
// there is no page, and for "" the directory is a new one.
func In(dir string) (*Page, error) {
	p := &Page{dir: dir}
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

// Add puts a scenario on the page and writes it, so that what was measured is
// there whatever comes next.
func (p *Page) Add(r Report, results []*run.Result) error {
	if p.dir == "none" {
		return nil
	}
	pictures, err := Draw(results)
	if err != nil {
		return err
	}
	for _, d := range pictures {
		name := fmt.Sprintf("%s-%s.svg", r.Scenario, d.Name)
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(d.SVG), 0o644); err != nil {
			return err
		}
	}
	var table, out bytes.Buffer
	if err := r.Table(&table, true); err != nil {
		return err
	}
	p.parts = append(p.parts, part{r.Scenario, table.String(), pictures})
	if err := layout.Execute(&out, p.parts); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, "index.html"), out.Bytes(), 0o644)
}

// Tell says where the page is, if there is one.
func (p *Page) Tell(w io.Writer) {
	if len(p.parts) > 0 {
		fmt.Fprintf(w, "\nall figures and pictures: %s\n", filepath.Join(p.dir, "index.html"))
	}
}
