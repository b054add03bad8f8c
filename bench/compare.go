package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/report"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// compare runs every scenario on every engine and reports each scenario as soon
// as it is through. It counts what went wrong on the way; an error is for what
// cannot be done at all.
func compare(ctx context.Context, p plan, stdout, stderr *os.File) (faults int, err error) {
	figures, table, err := outputs(p.json, stdout, stderr)
	if err != nil {
		return 0, err
	}
	defer figures.Close()
	bed, err := p.bed(ctx)
	if err != nil {
		return 0, err
	}
	defer bed.close()
	album, err := p.album()
	if err != nil {
		return 0, err
	}

	var measured []report.Report
	display := run.To(stderr)
	for number, r := range p.rounds {
		if ctx.Err() != nil {
			break
		}
		display.Of(number+1, len(p.rounds))
		results, err := r.compare(ctx, p.engines, bed, display)
		switch {
		case errors.Is(err, backend.ErrNotOurs), errors.Is(err, run.ErrReal) && len(p.rounds) > 1:
			fmt.Fprintf(stderr, "%s: left out: %v\n", r.scenario.Name, err)
			continue
		case err != nil:
			return faults, fmt.Errorf("%s: %w", r.scenario.Name, err)
		case len(results) == 0:
			fmt.Fprintf(stderr, "%s: interrupted before anything was measured\n", r.scenario.Name)
			continue
		}
		for _, result := range results {
			faults += len(result.Faults)
		}
		of := report.Of(results)
		of.Simulated, of.Rehearsed = p.simulate, r.rehearse
		measured = append(measured, of)
		if err := errors.Join(of.Table(table, p.verbose), of.JSON(figures), album.add(of, results)); err != nil {
			return faults, fmt.Errorf("the report cannot be written: %w", err)
		}
	}
	if len(p.rounds) > 1 {
		err = report.Summary(table, measured)
	}
	album.tell(table)
	return faults, err
}

// compare puts each engine through the round. When ctx ends, it returns what
// there is until then.
func (r round) compare(
	ctx context.Context, all []engines.Engine, bed bed, display *run.Progress,
) (results []*run.Result, err error) {
	on, done, err := bed.prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.rehearse {
		display.Say(r.scenario.Name + ": a rehearsal, to see what this machine does")
		r, err = r.rehearsed(ctx, on, display)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("rehearsal: %w", err)
		}
	}
	for _, e := range all {
		display.Begin(fmt.Sprintf("%s, %s", r.scenario.Name, e.Name), r.load.Duration)
		result, err := on.run(ctx, r, e, display)
		switch {
		case ctx.Err() != nil && err != nil: // it had not begun
			run.Judge(results)
			return results, nil
		case err != nil:
			return results, fmt.Errorf("%s: %w", e.Name, err)
		}
		if result.Log.End > result.Log.Begin { // else it was interrupted before anybody called
			results = append(results, result)
		}
		if ctx.Err() != nil {
			break
		}
	}
	run.Judge(results)
	return results, nil
}

// outputs are where the figures and the table go. Where standard output is for
// the figures, the table goes to standard error.
func outputs(path string, stdout, stderr *os.File) (figures io.WriteCloser, table io.Writer, err error) {
	switch path {
	case "":
		return discard{io.Discard}, stdout, nil
	case "-":
		return stdout, stderr, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("-json: %w: give a path that can be written, or - for standard output", err)
	}
	return file, stdout, nil
}

// discard is where figures go that nobody asked for.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }
