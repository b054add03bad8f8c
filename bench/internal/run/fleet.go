package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
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

// Fleet is the client processes of one run. None outlives it: their orders come
// through a pipe that ends with the parent, whatever ends the parent.
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
			f.Close()
			return nil, err
		}
		f.processes = append(f.processes, p)
	}
	late := time.After(readiness)
	for _, p := range f.processes {
		if err := f.await(ctx, p, late); err != nil {
			f.Close()
			return nil, err
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
func (f *Fleet) Start(at time.Duration) error { return f.order(Order{Start: &at}) }

// Account is what the clients told.
type Account struct {
	Calls      []measure.Call
	RedisCalls int
	Paused     []time.Duration   // when pauses were recorded
	Told       []measure.Told    // by client, in the order of the jobs
	Stalls     [][]measure.Stall // likewise
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
		p.mu.Lock()
		all.Calls = append(all.Calls, p.calls...)
		all.RedisCalls += p.last.RedisCalls
		all.Told = append(all.Told, p.told)
		all.Paused = append(all.Paused, p.paused...)
		all.Stalls = append(all.Stalls, p.stalls)
		p.mu.Unlock()
	}
	return all, err
}

// Close ends every process that still runs, and waits for its end.
func (f *Fleet) Close() {
	var all sync.WaitGroup
	for _, p := range f.processes {
		all.Go(p.kill)
	}
	all.Wait()
}

// Clients is how many there are.
func (f *Fleet) Clients() int { return len(f.processes) }

// Kill ends a client with no time to put anything in order, and returns when it
// has ended. Died does not tell of it.
func (f *Fleet) Kill(client int) error {
	p := f.processes[client]
	p.condemned.Store(true)
	p.kill()
	return nil
}

// Suspend makes a client's process stand still.
func (f *Fleet) Suspend(client int) error {
	p := f.processes[client]
	if p.hasEnded() || p.suspended.Swap(true) {
		return nil
	}
	return stop(p.cmd.Process)
}

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

// process is one client process.
type process struct {
	client int
	cmd    *exec.Cmd
	orders *json.Encoder
	stdin  io.Closer
	stderr bytes.Buffer // read after the process has ended

	condemned atomic.Bool // its end is intended
	suspended atomic.Bool

	ready chan struct{} // closed when it says so
	ended chan struct{} // closed when it has ended and everything it told is here

	// What it has told so far.
	mu     sync.Mutex
	calls  []measure.Call
	told   measure.Told
	stalls []measure.Stall
	paused []time.Duration
	last   News // the last that tells counts
	failed string
}

func start(cmd *exec.Cmd, job Job, died chan error) (*process, error) {
	p := &process{
		client: job.Client, cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{}),
	}
	cmd.Stderr = &p.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("client %d cannot be started: %w", job.Client, err)
	}
	p.stdin, p.orders = stdin, json.NewEncoder(stdin)
	go p.listen(stdout, died)
	if err := p.orders.Encode(Order{Job: &job}); err != nil {
		p.kill()
		return nil, <-died // says why it cannot be told
	}
	return p, nil
}

// listen writes down what the process tells until it ends. If that is early, it
// says why: in the client's own words, or by its exit status and standard error.
func (p *process) listen(stdout io.Reader, died chan<- error) {
	decoder := json.NewDecoder(stdout)
	for {
		var news News
		if decoder.Decode(&news) != nil {
			break
		}
		p.note(news)
	}
	_, _ = io.Copy(io.Discard, stdout) // after garbage, let it end
	err := p.cmd.Wait()
	why := p.failed
	if why == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(p.stderr.String()), "\n")
		why = strings.TrimSpace(fmt.Sprintf("%v %s", err, first))
	}
	if !p.last.Done && !p.condemned.Load() {
		died <- fmt.Errorf("client %d died: %s", p.client, why)
	}
	close(p.ended)
}

func (p *process) note(news News) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls = append(p.stalls, news.Stalls...)
	p.told = p.told.And(news.Told)
	if news.Call != nil || news.Done {
		p.last = news
	}
	switch {
	case news.Ready:
		close(p.ready)
	case news.Call != nil:
		p.calls = append(p.calls, *news.Call)
	case news.Paused > 0:
		p.paused = append(p.paused, news.Paused)
	case news.Failed != "":
		p.failed = news.Failed
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) resume() error {
	if p.hasEnded() || !p.suspended.Swap(false) {
		return nil
	}
	return goOn(p.cmd.Process)
}

// kill ends the process if it still runs and waits for its end.
func (p *process) kill() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill()
	<-p.ended
}
