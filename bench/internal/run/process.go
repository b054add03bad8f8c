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
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// Role, in the environment, makes this program one of its own processes.
const Role = "FAIRLIMIT_BENCH_ROLE"

// Grace is how long a process has to put things in order once it is to end.
const Grace = 10 * time.Second

// process is one of this program's own, in some role. Both sides talk in JSON:
// it gets a job, and tells what came of it. It is to end when its standard input
// does, so it does not outlive the program, whatever ends that.
type process struct {
	*exec.Cmd
	orders io.WriteCloser
	news   *json.Decoder
	stderr bytes.Buffer // with its last words
	ended  func() error // waits for it
}

// begin starts this program in a role, and gives it its job.
func begin(role string, job any) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program does not find itself: %w", err)
	}
	p := &process{Cmd: exec.Command(path)}
	p.Env = append(os.Environ(), Role+"="+role)
	p.Stderr, p.ended = io.MultiWriter(&p.stderr, os.Stderr), sync.OnceValue(p.Wait)
	stdin, failed := p.StdinPipe()
	stdout, err := p.StdoutPipe()
	if err = cmp.Or(failed, err); err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", path, err)
	}
	p.orders, p.news = stdin, json.NewDecoder(stdout)
	_ = json.NewEncoder(stdin).Encode(job) // if this fails, the process has ended
	return p, nil
}

// answer is what a process tells.
type answer struct {
	Error  string
	Result json.RawMessage
}

// hear decodes what the process tells next. If it ends without a word, the error
// has its exit status and the first line of its standard error.
func (p *process) hear(result any) error {
	var got answer
	if failed := p.news.Decode(&got); failed != nil {
		status := cmp.Or(p.ended(), failed)
		first, _, _ := strings.Cut(p.stderr.String(), "\n")
		return errors.New(strings.TrimSpace(fmt.Sprint(status, " ", first)))
	}
	if got.Error != "" {
		return errors.New(got.Error)
	}
	return json.Unmarshal(got.Result, result)
}

// signal sends a signal by its name. Where there are none, the error says so.
func (p *process) signal(name string) error {
	kill := fmt.Sprintf("kill -%s %d", name, p.Process.Pid)
	if out, err := exec.Command("sh", "-c", kill).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", kill, err, out)
	}
	return nil
}

// Ask has a process of a role do a job, and decodes its result. When ctx ends,
// the process is told to end; what it has until then is its result.
func Ask(ctx context.Context, role string, job, result any) error {
	p, err := begin(role, job)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = p.orders.Close() })()
	defer p.ended()
	defer p.orders.Close()
	return p.hear(result)
}

// Answer is the life of a process that does a job: it does not return. Once it
// is ready, the job may ask when to begin, if its parent says so.
func Answer[J any](do func(ctx context.Context, job J, begin func() time.Duration) (any, error)) {
	signal.Ignore(os.Interrupt) // a terminal sends it to everybody; the parent is in charge
	ctx, cancel := context.WithCancel(context.Background())
	orders, news := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	tell := func(result any, err error) {
		var told answer
		if err == nil {
			told.Result, err = json.Marshal(result)
		}
		if err != nil {
			told.Error = err.Error()
		}
		if failed := news.Encode(told); err != nil || failed != nil {
			os.Exit(1)
		}
	}
	var job J
	if err := orders.Decode(&job); err != nil {
		tell(nil, err)
	}
	starts := make(chan time.Duration, 1)
	go func() {
		var at time.Duration
		for orders.Decode(&at) == nil {
			starts <- at
		}
		cancel() // the parent is gone, or wants no more
		time.Sleep(Grace)
		os.Exit(1)
	}()
	tell(do(ctx, job, func() (at time.Duration) {
		tell(nil, nil)
		select {
		case at = <-starts:
		case <-ctx.Done():
		}
		return at
	}))
	os.Exit(0)
}

// readiness is how long it may take until all clients are ready.
const readiness = 60 * time.Second

// Job is everything that a client must know.
type Job struct {
	Scenario string
	Engine   string
	Redis    string
	Upstream string
	Name     string // of the limiter
	Load     scenario.Load
	Client   int
	Callers  int
}

// Account is what a client has to tell.
type Account struct {
	Calls      []measure.Call
	RedisCalls int             // commands sent
	Missed     []time.Duration // when a caller woke too late for its turn
	Stalls     []measure.Stall // that a bystander saw
}

// Fleet is the client processes of one run.
type Fleet struct {
	clients  []*process
	told     []Account // by client
	away     sync.WaitGroup
	died     chan error   // of clients that ended before they were told to
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
