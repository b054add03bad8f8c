package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// readiness is how long it may take until all clients are ready.
const readiness = 60 * time.Second

// Job is everything that a client must know.
type Job struct {
	Scenario string
	Engine   string
	Redis    string
	Via      string // where to connect to instead; empty: nowhere else
	Upstream string
	Name     string // of the limiter
	Load     scenario.Load
	Client   int
	Callers  int
}

// Account is what a client has to tell.
type Account struct {
	Calls      []measure.Call
	RedisCalls int // commands sent
	Told       measure.Told
	Stalls     []measure.Stall // that a bystander saw
}

// Fleet is the client processes of one run.
type Fleet struct {
	clients  []*process
	told     []Account // by client
	away     sync.WaitGroup
	died     chan error
	killed   atomic.Bool  // the last client was, on purpose
	befallen map[int]bool // clients that were killed or put to sleep
}

// Launch starts a process of a role for each job and returns when all are ready
// to begin. The caller closes the fleet.
func Launch(ctx context.Context, role string, jobs []Job) (*Fleet, error) {
	ctx, cancel := context.WithTimeout(ctx, readiness)
	defer cancel()
	f := &Fleet{told: make([]Account, len(jobs)), died: make(chan error, len(jobs)), befallen: map[int]bool{}}
	for _, job := range jobs {
		p, err := begin(role, job)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.clients = append(f.clients, p)
	}
	defer context.AfterFunc(ctx, f.Close)()
	for i, c := range f.clients {
		if err := c.hear(new(any)); err != nil {
			f.Close()
			return nil, cmp.Or(context.Cause(ctx), fmt.Errorf("client %d: %w", jobs[i].Client, err))
		}
	}
	return f, nil
}

// Died tells of clients that ended before they were told to.
func (f *Fleet) Died() <-chan error { return f.died }

// Start lets everybody begin at a moment on the machine's clock.
func (f *Fleet) Start(at time.Duration) (err error) {
	for i, c := range f.clients {
		err = errors.Join(err, json.NewEncoder(c.orders).Encode(at))
		f.away.Go(func() {
			err := c.hear(&f.told[i])
			if meant := f.killed.Load() && i == len(f.clients)-1; err != nil && !meant {
				f.died <- fmt.Errorf("client %d died: %w", i, err)
			}
			_ = c.ended()
		})
	}
	return err
}

// Stop sends everybody home and returns when all are, with what they told. A
// client that was killed tells nothing.
func (f *Fleet) Stop() (_ []Account, err error) {
	for i, c := range f.clients {
		if f.befallen[i] {
			_ = c.signal("CONT") // who sleeps hears nothing
		}
		_ = c.orders.Close()
	}
	defer time.AfterFunc(Grace, f.Close).Stop()
	f.away.Wait()
	for len(f.died) > 0 {
		err = errors.Join(err, <-f.died)
	}
	return f.told, err
}

// Close ends every process that still runs.
func (f *Fleet) Close() {
	for _, c := range f.clients {
		_ = c.Process.Kill()
	}
}

// befall does something to the last client's process: it is killed with no time
// to put anything in order, put to sleep, or woken.
func (f *Fleet) befall(deed scenario.Deed) error {
	last := len(f.clients) - 1
	f.befallen[last] = true
	switch c := f.clients[last]; deed {
	case scenario.Kill:
		f.killed.Store(true)
		return c.Process.Kill()
	case scenario.Suspend:
		return c.signal("STOP")
	default:
		return c.signal("CONT")
	}
}
