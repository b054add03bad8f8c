package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/monotime"
	"github.com/fairlimit/fairlimit/bench/internal/progress"
	"github.com/fairlimit/fairlimit/bench/internal/report"
	"github.com/fairlimit/fairlimit/bench/internal/trial"
)

// measure runs every scenario on every engine and reports each scenario as soon as it is through. It counts what went wrong on the way; an error
// is for what cannot be done at all.
func measure(ctx context.Context, p plan, stdout, stderr *os.File) (faults int, err error) {
	figures, table, err := outputs(p.json, stdout, stderr)
	if err != nil {
		return 0, err
	}
	defer figures.Close()
	server, err := backend.Open(ctx, p.redis)
	if err != nil {
		return 0, err
	}
	defer server.Close()
	if err := p.try(server); err != nil {
		return 0, err
	}
	command, err := self()
	if err != nil {
		return 0, err
	}

	display := progress.On(stderr)
	for _, s := range p.scenarios {
		var results []*trial.Result
		for _, e := range p.engines {
			if ctx.Err() != nil {
				break
			}
			display.Begin(fmt.Sprintf("%s, %s", s.Name, e.Name), p.load.Duration)
			result, err := trial.Trial{
				Scenario: s, Engine: e, Load: p.load, Backend: server, Name: "bench:" + rand.Text(), Command: command, Watch: display.Update,
			}.Run(ctx)
			display.End()
			switch {
			case errors.Is(err, context.Canceled): // before it began
			case err != nil:
				return faults, fmt.Errorf("%s, %s: %w", s.Name, e.Name, err)
			default:
				results = append(results, result)
				faults += len(result.Faults)
			}
		}
		if len(results) == 0 {
			fmt.Fprintf(stderr, "%s: interrupted before anything was measured\n", s.Name)
			break
		}
		r := report.Of(results)
		if err := errors.Join(r.Table(table), r.JSON(figures)); err != nil {
			return faults, fmt.Errorf("the report cannot be written: %w", err)
		}
	}
	return faults, nil
}

// try makes each engine once, so that a quota one of them cannot hold is told before anything is measured.
func (p plan) try(server *backend.Backend) error {
	for _, e := range p.engines {
		if _, err := e.Open(server.Client(), "bench", e.Given(p.load), monotime.Now); err != nil {
			return fmt.Errorf("%s cannot hold -quota %v: %w", e.Name, p.load.Quota, err)
		}
	}
	return nil
}

// outputs are where the figures and the table go. Where standard output is for the figures, the table goes to standard error.
func outputs(path string, stdout, stderr *os.File) (figures io.WriteCloser, table io.Writer, err error) {
	switch path {
	case "":
		return discard{}, stdout, nil
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
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }
