// Package simulate puts an engine under load in virtual time: the same
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
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// ErrReal says that a scenario is about what happens to processes and servers.
// A simulation has neither.
var ErrReal = errors.New("it needs real processes and a real server: leave -simulate out")

// glancing is how often the watcher is told, in real time.
const glancing = 2 * time.Second

// Run simulates the trial in a process whose life is [Main]. When ctx ends it
// stops early and reports what was simulated until then.
func Run(ctx context.Context, t run.Trial) (*run.Result, error) {
	job := run.Job{Scenario: t.Scenario.Name, Engine: t.Engine.Name, Load: t.Load}
	simulator, err := run.Launch(ctx, t.Command, []run.Job{job})
	if err != nil {
		return nil, err
	}
	defer simulator.Close()
	if err := simulator.Start(0); err != nil {
		return nil, err
	}
	ticker := time.NewTicker(glancing)
	defer ticker.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-simulator.Ended(0):
			over = true
		case <-ticker.C:
			if t.Watch != nil {
				at, arrivals := simulator.Glance(0)
				t.Watch(t.Load.Duration-at, arrivals)
			}
		}
	}
	told, err := simulator.Stop()
	select {
	case died := <-simulator.Died():
		return nil, died
	default:
	}
	if err != nil {
		return nil, err
	}
	at, _ := simulator.Glance(0)
	t.Backend = &backend.Backend{Name: "embedded, simulated"}
	r := &run.Result{
		Trial: t, Given: t.Engine.Given(t.Load), CountedBy: "clients", RedisCalls: told.RedisCalls,
		Log: measure.Log{End: at, Callers: t.Scenario.CallersOf(t.Load), Calls: told.Calls},
	}
	if err := run.Failures(told.Calls); err != nil {
		r.Faults = append(r.Faults, err.Error())
	}
	return r, nil
}

// Main is the life of the simulating process: it reads its job from standard
// input, simulates until that ends or the job is done, and tells on standard
// output. It does not return.
//
// Only a test can have a bubble, so this is a test. [testing.Main] is kept for
// programs that are not test binaries and run tests all the same. What it
// prints comes after the last of the news, where nobody listens.
func Main() {
	signal.Ignore(os.Interrupt) // a terminal sends it to everybody; the parent is in charge
	runtime.GOMAXPROCS(1)       // there is one thing to do at a time, and handing it over costs
	debug.SetGCPercent(400)     // the stacks of ten thousand callers are much to look through
	match := func(string, string) (bool, error) { return true, nil }
	testing.Main(match, []testing.InternalTest{
		{Name: "simulation", F: func(t *testing.T) { simulate(t, os.Stdin, os.Stdout) }},
	}, nil, nil)
}

func simulate(t *testing.T, orders io.Reader, told io.Writer) {
	buffer := bufio.NewWriterSize(told, 1<<16)
	encoder := json.NewEncoder(buffer)
	tell := func(n run.News, flush bool) {
		err := encoder.Encode(n)
		if flush {
			err = errors.Join(err, buffer.Flush())
		}
		if err != nil {
			t.Fatal(err) // the parent is gone
		}
	}
	heard := json.NewDecoder(orders)
	var job, start run.Order
	if err := heard.Decode(&job); err != nil || job.Job == nil {
		t.Fatal("no job: ", err)
	}
	tell(run.News{Ready: true}, true)
	if err := heard.Decode(&start); err != nil {
		t.Fatal("no order to start: ", err)
	}
	stopped, stop := context.WithCancel(context.Background())
	go func() {
		var end run.Order
		_ = heard.Decode(&end) // to stop, or nobody is there any more
		stop()
	}()
	synctest.Test(t, func(t *testing.T) {
		w, err := build(*job.Job)
		if err != nil {
			tell(run.News{Failed: err.Error()}, true)
			return
		}
		defer w.close()
		if start.Start != nil {
			w.run(func() bool { return stopped.Err() != nil }, func(at time.Duration, arrivals int) {
				tell(run.News{At: at, Arrivals: arrivals}, true)
			})
		}
		for _, c := range w.calls {
			tell(run.News{Call: &c}, false)
		}
		tell(run.News{Done: true, RedisCalls: w.asked, At: w.end}, true)
	})
}
