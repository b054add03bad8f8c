package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/report"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// compare runs every scenario on every engine and reports each scenario as soon
// as it is through.
func compare(ctx context.Context, args []string, stdout, stderr *os.File) error {
	p, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if p.list {
		list(stdout)
		return nil
	}
	figures, table, err := outputs(p.json, stdout, stderr)
	if err != nil {
		return err
	}
	defer figures.Close()
	server, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	page, err := report.In(p.out)
	if err != nil {
		return err
	}
	faulty := false
	var reports []report.Report
	for _, r := range p.rounds {
		if ctx.Err() != nil {
			break
		}
		results, err := r.run(ctx, server, stderr)
		if errors.Is(err, backend.ErrNoServer) {
			fmt.Fprintf(stderr, "%s: left out: %v\n", r.scenario.Name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.scenario.Name, err)
		}
		if len(results) == 0 {
			fmt.Fprintf(stderr, "%s: interrupted before anything was measured\n", r.scenario.Name)
			continue
		}
		of := report.Of(results)
		reports = append(reports, of)
		faulty = faulty || slices.ContainsFunc(results, func(r *run.Result) bool { return len(r.Faults) > 0 })
		if err := errors.Join(of.Table(table, false), of.JSON(figures), page.Add(of, results)); err != nil {
			return fmt.Errorf("the report cannot be written: %w", err)
		}
	}
	report.Summary(table, reports)
	page.Tell(table)
	if faulty {
		return errFaulty
	}
	return nil
}

// open finds a server and makes each engine once. If one of them cannot hold the
// quota, that is told before anything is measured.
func (p plan) open(ctx context.Context) (*backend.Backend, error) {
	server, err := backend.Open(ctx, p.redis)
	if err != nil {
		return nil, err
	}
	for _, r := range p.rounds {
		for _, e := range r.engines {
			setup := engines.Setup{Load: e.Given(r.load), Redis: server.Client, Name: "bench"}
			if _, err := e.Open(setup); err != nil {
				server.Close()
				return nil, fmt.Errorf("%s cannot hold -quota %v: %w", e.Name, r.load.Quota, err)
			}
		}
	}
	return server, nil
}

// run puts each engine through a round. When ctx ends, it returns what there
// is until then.
func (r round) run(ctx context.Context, server *backend.Backend, stderr io.Writer) (results []*run.Result, err error) {
	if r.scenario.EndsRedis {
		if server, err = backend.Start(ctx); err != nil {
			return nil, err
		}
		defer server.Close()
	}
	for _, e := range r.engines {
		if ctx.Err() != nil {
			break
		}
		result, err := run.Trial{
			Scenario: r.scenario, Engine: e, Load: r.load, Backend: server, Name: "bench:" + rand.Text(),
			Progress: stderr,
		}.Run(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return results, fmt.Errorf("%s: %w", e.Name, err)
		case err == nil && result.Log.End > result.Log.Begin: // else it was interrupted before anybody called
			results = append(results, result)
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
		path = os.DevNull
	case "-":
		return stdout, stderr, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("-json: %w: give a path that can be written, or - for standard output", err)
	}
	return file, stdout, nil
}
