package main

import (
	"fmt"
	"io"
	"os"

	"github.com/fairlimit/fairlimit/bench/internal/report"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// noPictures, given as the directory for them, makes none.
const noPictures = "none"

// album is where the pictures go; without a page, nowhere.
type album struct {
	page  *report.Page
	empty bool
}

func (p plan) album() (*album, error) {
	dir := p.out
	switch dir {
	case noPictures:
		return &album{empty: true}, nil
	case "":
		var err error
		if dir, err = os.MkdirTemp("", "fairlimit-bench-"); err != nil {
			return nil, fmt.Errorf("-out: %w: give a directory that can be written, or none for no pictures", err)
		}
	}
	made, err := report.In(dir, p.command)
	return &album{page: made, empty: true}, err
}

func (a *album) add(r report.Report, results []*run.Result) error {
	if a.page == nil {
		return nil
	}
	var runs []report.Run
	for _, one := range results {
		runs = append(runs, report.Run{
			Engine: one.Trial.Engine.Name, Caption: caption(one), Simulated: r.Simulated, Log: one.Log,
		})
	}
	pictures, err := report.Draw(runs, results[0].Apart)
	if err != nil {
		return err
	}
	a.empty = false
	return a.page.Add(r, pictures)
}

func (a *album) tell(w io.Writer) {
	if !a.empty {
		fmt.Fprintf(w, "\nall figures and pictures: %s\n", a.page.Path())
	}
}

// caption is what the picture of an engine shows, in figures.
func caption(one *run.Result) string {
	said := fmt.Sprintf("%d pairs in the wrong order", one.Figures.Inversions)
	if one.Figures.Inversions == 1 {
		said = "1 pair in the wrong order"
	}
	if machines := one.Figures.MachineInversions; machines > 0 {
		said += fmt.Sprintf(", and %d by the machine", machines)
	}
	return said
}
