// Package fleet starts the client processes and ends them. None outlives its
// fleet: their orders come through a pipe that ends with the parent, whatever
// ends the parent.
package run

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

const (
	// homecoming is how long a client may take to end after it was told to
	// stop.
	homecoming = 10 * time.Second

	// readiness is how long it may take until all clients are ready.
	readiness = 60 * time.Second
)

// Fleet is the client processes of one run.
type Fleet struct {
	processes []*process
	died      chan error
}

// Launch starts a process for each job and returns when all are ready to begin.
// The caller closes the fleet.
func Launch(ctx context.Context, command func() *exec.Cmd, jobs []Job) (*Fleet, error) {
	f := &Fleet{died: make(chan error, len(jobs))}
	for _, job := range jobs {
		p, err := start(command(), job, f.died)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.processes = append(f.processes, p)
	}
	late := time.After(readiness)
	for _, p := range f.processes {
		if err := f.await(ctx, p, late); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// await returns when a process is ready, or with the reason why it will not be.
func (f *Fleet) await(ctx context.Context, p *process, late <-chan time.Time) error {
	select {
	case <-p.ready:
		return nil
	case err := <-f.died:
		return err
	case <-p.ended:
		select {
		case err := <-f.died:
			return err
		default:
			return fmt.Errorf("client %d ended before it was ready", p.client)
		}
	case <-late:
		return fmt.Errorf("client %d was not ready within %v", p.client, readiness)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Died tells of clients that ended before they were told to.
func (f *Fleet) Died() <-chan error { return f.died }

// Start lets everybody begin at a moment on the machine's clock.
func (f *Fleet) Start(at time.Duration) error {
	return f.order(Order{Start: &at})
}

// Account is what the clients told.
type Account struct {
	Calls      []measure.Call
	RedisCalls int
	Misses     measure.Misses
	Paused     []time.Duration   // when pauses were recorded
	Stalls     [][]measure.Stall // by client, in the order of the jobs
}

// Stop sends everybody home and returns when all are, with all that they told.
func (f *Fleet) Stop() (all Account, err error) {
	for _, p := range f.processes {
		err = errors.Join(err, p.resume()) // who sleeps hears nothing
	}
	err = errors.Join(err, f.order(Order{Stop: true}))
	late := time.After(homecoming)
	for _, p := range f.processes {
		select {
		case <-p.ended:
		case <-late:
			err = errors.Join(err, fmt.Errorf("client %d did not come home within %v", p.client, homecoming))
		}
		told := p.told()
		all.Calls = append(all.Calls, told.calls...)
		all.RedisCalls += told.done.RedisCalls
		all.Misses = all.Misses.And(told.misses)
		all.Paused = append(all.Paused, told.paused...)
		all.Stalls = append(all.Stalls, told.stalls)
	}
	return all, err
}

// Close ends every process that still runs, and waits for its end.
func (f *Fleet) Close() error {
	var all sync.WaitGroup
	for _, p := range f.processes {
		all.Go(p.kill)
	}
	all.Wait()
	return nil
}

// Clients is how many there are.
func (f *Fleet) Clients() int { return len(f.processes) }

// Do lets a client do something to its limiter, and returns when that is done.
func (f *Fleet) Do(ctx context.Context, client int, deed Deed) (at time.Duration, err error) {
	p := f.processes[client]
	if err := p.orders.Encode(Order{Deed: &deed}); err != nil {
		return 0, fmt.Errorf("client %d cannot be told: %w", client, err)
	}
	select {
	case did := <-p.did:
		if did.Error != "" {
			return did.At, fmt.Errorf("client %d: %s", client, did.Error)
		}
		return did.At, nil
	case <-p.ended:
		return 0, fmt.Errorf("client %d ended before that", client)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Kill ends a client with no time to put anything in order, and returns when it
// has ended. Died does not tell of it.
func (f *Fleet) Kill(client int) error {
	p := f.processes[client]
	p.condemned.Store(true)
	p.kill()
	return nil
}

// Suspend makes a client's process stand still.
func (f *Fleet) Suspend(client int) error { return f.processes[client].suspend() }

// Resume lets it go on.
func (f *Fleet) Resume(client int) error { return f.processes[client].resume() }

func (f *Fleet) order(o Order) (err error) {
	for _, p := range f.processes {
		if failed := p.orders.Encode(o); failed != nil && !p.hasEnded() {
			err = errors.Join(err, fmt.Errorf("client %d cannot be told: %w", p.client, failed))
		}
	}
	return err
}
