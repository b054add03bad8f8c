// Package simulation puts an engine under load in virtual time: the same
// limiters, engines, scripts and scenarios as a trial, but all clients in one
// process, in a bubble of testing/synctest. The bubble's clock stands still
// while anybody works and jumps ahead when all wait. So a day takes minutes, no
// scheduler is in the way, and ten thousand callers fit. The work itself takes
// no time there, not even Redis's: a simulation says who is served when, not
// how fast.
//
// A seed leads to the same figures each time. Delays of the network and of
// timers follow from the seed, and no two events fall into one nanosecond: see
// [instants].
package simulate

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// Backend is what stands in the reports for the server under a simulation.
const Backend = "embedded, simulated"

// ErrReal says that a scenario is about what happens to processes and servers.
// A simulation has neither.
var ErrReal = errors.New("it needs real processes and a real server: leave -simulate out")

// Simulation is what is to be simulated.
type Simulation struct {
	Scenario scenario.Scenario
	Engine   engines.Engine
	Load     scenario.Load
	Command  func() *exec.Cmd // starts this program so that it calls Main

	Watch func(left time.Duration, arrivals int) // may be nil; tells the virtual time
}

// glancing is how often the watcher is told, in real time.
const glancing = 2 * time.Second

// job is what the simulating process is told.
type job struct {
	Scenario, Engine string
	Load             scenario.Load
}

// news is what it tells. One field is set.
type news struct {
	Glance *glance
	Calls  []measure.Call
	Done   *done // last
}

// glance is how far it is.
type glance struct {
	At       time.Duration
	Arrivals int
}

// done is how it ended.
type done struct {
	At         time.Duration
	RedisCalls int
	Failed     string
}

// Run does it. When ctx ends it stops early and reports what was simulated
// until then.
func (s Simulation) Run(ctx context.Context) (*run.Result, error) {
	cmd := s.Command()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the simulation cannot be started: %w", err)
	}
	// The process takes the end of its input as the order to end.
	stop := context.AfterFunc(ctx, func() { _ = stdin.Close() })
	defer stop()
	err = gob.NewEncoder(stdin).Encode(job{s.Scenario.Name, s.Engine.Name, s.Load})
	if err != nil && ctx.Err() == nil {
		return nil, errors.Join(fmt.Errorf("the simulation cannot be told its job: %w", err), end(cmd))
	}
	calls, last, err := s.listen(stdout)
	_, _ = io.Copy(io.Discard, stdout)
	switch ended := cmd.Wait(); {
	case err != nil:
		return nil, fmt.Errorf("the simulation died: %w", errors.Join(err, ended))
	case last.Failed != "":
		return nil, errors.New(last.Failed)
	}
	return s.result(calls, last), nil
}

func end(cmd *exec.Cmd) error {
	return errors.Join(cmd.Process.Kill(), cmd.Wait())
}

func (s Simulation) listen(stdout io.Reader) (calls []measure.Call, last done, err error) {
	decoder := gob.NewDecoder(stdout)
	var watched time.Time
	for {
		var n news
		if err := decoder.Decode(&n); err != nil {
			return nil, done{}, err
		}
		switch {
		case n.Done != nil:
			return calls, *n.Done, nil
		case n.Glance != nil:
			if s.Watch != nil && time.Since(watched) >= glancing {
				watched = time.Now()
				s.Watch(s.Load.Duration-n.Glance.At, n.Glance.Arrivals)
			}
		default:
			calls = append(calls, n.Calls...)
		}
	}
}

func (s Simulation) result(calls []measure.Call, last done) *run.Result {
	r := &run.Result{
		Trial: run.Trial{
			Scenario: s.Scenario, Engine: s.Engine, Load: s.Load, Backend: &backend.Backend{Name: Backend},
		},
		Given: s.Engine.Given(s.Load), CountedBy: "clients", RedisCalls: last.RedisCalls,
		Log: measure.Log{End: last.At, Callers: s.Scenario.CallersOf(s.Load), Calls: calls},
	}
	if err := run.Failures(calls); err != nil {
		r.Faults = append(r.Faults, err.Error())
	}
	return r
}
