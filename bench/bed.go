package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/exec"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/simulate"
)

// bed is where engines are put to the test: on this machine, or in virtual
// time.
type bed interface {
	// prepare gets ready for a round. done ends what it has begun.
	prepare(ctx context.Context, r round) (runner, func(), error)
	close()
}

// runner puts one engine through a round and tells how far it is.
type runner func(
	ctx context.Context, r round, e engines.Engine, watch func(left time.Duration, grants int),
) (*run.Result, error)

func (p plan) bed(ctx context.Context) (bed, error) {
	if p.simulate {
		if only := p.rounds[0].scenario; len(p.rounds) == 1 && only.Breaks() {
			return nil, fmt.Errorf("%s: %w", only.Name, simulate.ErrReal)
		}
		command, err := self(asSimulator)
		return virtual{command}, err
	}
	command, err := self(asClient)
	if err != nil {
		return nil, err
	}
	server, err := backend.Open(ctx, p.redis)
	if err != nil {
		return nil, err
	}
	if err := p.try(server); err != nil {
		server.Close()
		return nil, err
	}
	return machine{server, command}, nil
}

// machine is this one.
type machine struct {
	server  *backend.Backend
	command func() *exec.Cmd
}

func (m machine) close() { m.server.Close() }

func (m machine) prepare(ctx context.Context, r round) (runner, func(), error) {
	server, done := m.server, func() {}
	if r.scenario.EndsRedis {
		var err error
		if server, err = m.server.Own(ctx); err != nil {
			return nil, nil, err
		}
		done = server.Close
	}
	return func(ctx context.Context, r round, e engines.Engine, watch func(time.Duration, int)) (*run.Result, error) {
		return run.Trial{
			Scenario: r.scenario, Engine: e, Load: r.load, Backend: server,
			Name: "bench:" + rand.Text(), Command: m.command, Watch: watch,
		}.Run(ctx)
	}, done, nil
}

// try makes each engine once. If one of them cannot hold the quota, that is
// told before anything is measured.
func (p plan) try(server *backend.Backend) error {
	for _, r := range p.rounds {
		for _, e := range p.engines {
			if _, err := e.Open(server.Client(), "bench", e.Given(r.load), measure.Now); err != nil {
				return fmt.Errorf("%s cannot hold -quota %v: %w", e.Name, r.load.Quota, err)
			}
		}
	}
	return nil
}

// virtual is time that passes as fast as it can be worked off.
type virtual struct{ command func() *exec.Cmd }

func (virtual) close() {}

func (v virtual) prepare(_ context.Context, r round) (runner, func(), error) {
	if r.scenario.Breaks() {
		return nil, nil, simulate.ErrReal
	}
	return func(ctx context.Context, r round, e engines.Engine, watch func(time.Duration, int)) (*run.Result, error) {
		return simulate.Simulation{
			Scenario: r.scenario, Engine: e, Load: r.load, Command: v.command, Watch: watch,
		}.Run(ctx)
	}, func() {}, nil
}
