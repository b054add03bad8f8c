package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/exec"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// bed is where engines are put to the test: on this machine, or in virtual
// time.
type bed struct {
	server  *backend.Backend // nil in virtual time
	command func() *exec.Cmd
}

func (p plan) bed(ctx context.Context) (b bed, err error) {
	if p.simulate {
		if only := p.rounds[0].scenario; len(p.rounds) == 1 && only.Breaks() {
			return b, fmt.Errorf("%s: %w", only.Name, run.ErrReal)
		}
		return b, nil
	}
	if b.command, err = run.Self(asClient); err != nil {
		return b, err
	}
	if b.server, err = backend.Open(ctx, p.redis); err != nil {
		return b, err
	}
	if err := p.try(b.server); err != nil {
		b.close()
		return b, err
	}
	return b, nil
}

func (b bed) close() {
	if b.server != nil {
		b.server.Close()
	}
}

// prepare is the bed for a round, which may need a server of its own. Done ends
// that.
func (b bed) prepare(ctx context.Context, r round) (of bed, done func(), err error) {
	switch {
	case b.server == nil && r.scenario.Breaks():
		return b, nil, run.ErrReal
	case r.scenario.EndsRedis:
		b.server, err = b.server.Own(ctx)
		return b, b.close, err
	}
	return b, func() {}, nil
}

// run puts an engine through a round, and tells how far it is.
func (b bed) run(ctx context.Context, r round, e engines.Engine, display *run.Progress) (*run.Result, error) {
	t := run.Trial{
		Scenario: r.scenario, Engine: e, Load: r.load, Backend: b.server,
		Name: "bench:" + rand.Text(), Command: b.command, Watch: display.Update,
	}
	if b.server == nil {
		return t.Simulate(ctx, display.What())
	}
	return t.Run(ctx)
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
