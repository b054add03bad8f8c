package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

const (
	// homecoming is how long clients may take to end after they were told to
	// stop.
	homecoming = 10 * time.Second

	// readiness is how long it may take until all clients are ready.
	readiness = 60 * time.Second
)

// The parent and a client process talk in JSON. The client gets its Job, says by
// an empty Account that it is ready, gets the moment to start at, and calls until
// its standard input ends. Then it tells its Account.

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
	Error      string `json:",omitempty"` // why it cannot begin
	Calls      []measure.Call
	RedisCalls int // commands sent
	Told       measure.Told
	Stalls     []measure.Stall // that a bystander saw
}

// Fleet is the client processes of one run. None outlives it: their standard
// input ends with the parent, whatever ends the parent.
type Fleet struct {
	processes []*process
	died      chan error
	befallen  map[int]bool // clients that were killed or put to sleep
}

// Launch starts a process for each job and returns when all are ready to begin.
// The caller closes the fleet.
func Launch(ctx context.Context, command func() *exec.Cmd, jobs []Job) (*Fleet, error) {
	ctx, cancel := context.WithTimeout(ctx, readiness)
	defer cancel()
	f := &Fleet{died: make(chan error, len(jobs)), befallen: map[int]bool{}}
	for _, job := range jobs {
		p := &process{client: job.Client, cmd: command(), ended: make(chan struct{})}
		p.cmd.Stderr = &p.stderr
		var err error
		if p.stdin, p.news, err = begin(p.cmd, job); err != nil {
			f.Close()
			return nil, fmt.Errorf("client %d cannot be started: %w", job.Client, err)
		}
		f.processes = append(f.processes, p)
	}
	for _, p := range f.processes {
		patient := context.AfterFunc(ctx, f.Close)
		failed := p.news.Decode(&p.told)
		patient()
		go p.listen(failed, f.died)
		if failed != nil || p.told.Error != "" {
			f.Close()
			return nil, cmp.Or(context.Cause(ctx), <-f.died)
		}
	}
	return f, nil
}

// Died tells of clients that ended before they were told to.
func (f *Fleet) Died() <-chan error { return f.died }

// Start lets everybody begin at a moment on the machine's clock.
func (f *Fleet) Start(at time.Duration) (err error) {
	for _, p := range f.processes {
		err = errors.Join(err, json.NewEncoder(p.stdin).Encode(at))
	}
	return err
}

// Stop sends everybody home and returns when all are, with what they told. A
// client that was killed tells nothing.
func (f *Fleet) Stop() (told []Account, err error) {
	for _, p := range f.processes {
		err = errors.Join(err, p.resume()) // who sleeps hears nothing
		_ = p.stdin.Close()
	}
	late := time.AfterFunc(homecoming, f.Close)
	defer late.Stop()
	for _, p := range f.processes {
		<-p.ended
		told = append(told, p.told)
	}
	for len(f.died) > 0 {
		err = errors.Join(err, <-f.died)
	}
	return told, err
}

// Close ends every process that still runs, and waits for its end.
func (f *Fleet) Close() {
	for _, p := range f.processes {
		_ = p.cmd.Process.Kill()
	}
}

// Kill ends a client with no time to put anything in order, and returns when it
// has ended. Died does not tell of it.
func (f *Fleet) Kill(client int) error {
	p := f.processes[client]
	f.befallen[client] = true
	p.condemned.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
	return nil
}

// Suspend makes a client's process stand still.
func (f *Fleet) Suspend(client int) error {
	p := f.processes[client]
	f.befallen[client] = true
	if p.suspended.Swap(true) {
		return nil
	}
	return stop(p.cmd.Process)
}

// process is one client process.
type process struct {
	client int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	news   *json.Decoder
	stderr bytes.Buffer // read after the process has ended

	condemned atomic.Bool // its end is intended
	suspended atomic.Bool

	told  Account
	ended chan struct{} // closed when it has ended, and what it told is here
}

// listen waits for what the process tells, unless it failed to say that it is
// ready. If it ends early, it says why: in the client's own words, or by its exit
// status and standard error.
func (p *process) listen(failed error, died chan<- error) {
	if failed == nil && p.told.Error == "" {
		failed = p.news.Decode(&p.told)
	}
	_, _ = io.Copy(io.Discard, p.news.Buffered())
	err := p.cmd.Wait()
	if why := p.told.Error; (why != "" || failed != nil) && !p.condemned.Load() {
		first, _, _ := strings.Cut(strings.TrimSpace(p.stderr.String()), "\n")
		died <- fmt.Errorf("client %d died: %s", p.client, cmp.Or(why, strings.TrimSpace(fmt.Sprintf("%v %s", err, first))))
	}
	close(p.ended)
}

func (p *process) resume() error {
	if !p.suspended.Swap(false) {
		return nil
	}
	err := goOn(p.cmd.Process)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
