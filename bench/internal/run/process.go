package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// Role, in the environment, makes this program one of its own client processes.
const Role = "FAIRLIMIT_BENCH_ROLE"

// Client is that role.
const Client = "client"

const (
	readiness = 60 * time.Second // how long it may take until all clients are ready
	grace     = 10 * time.Second // how long a process has to put things in order once it is to end
)

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
	Told       bool
	Error      string `json:",omitempty"` // why it cannot begin
	Calls      []measure.Call
	RedisCalls int             // commands sent
	Missed     []time.Duration // when a caller woke too late for its turn
	Stalls     []measure.Stall // that a bystander saw
}

// process is a client process. Both sides talk in JSON: it gets a job, says that
// it is ready, is told when to begin, and tells what came of it. Meanwhile it may
// be told to begin anew with another load. It is to end when its standard input
// does, so it does not outlive the program, whatever ends that.
type process struct {
	*exec.Cmd
	stdin  io.Closer
	orders *json.Encoder
	news   *json.Decoder
	asleep bool
	killed bool // on purpose
}

// begin starts this program in a role, and gives it its job.
func begin(role string, job Job) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program does not find itself: %w", err)
	}
	p := &process{Cmd: exec.Command(path)}
	p.Env = append(os.Environ(), Role+"="+role)
	p.Stderr = os.Stderr
	stdin, failed := p.StdinPipe()
	stdout, err := p.StdoutPipe()
	if err = cmp.Or(failed, err); err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", path, err)
	}
	p.stdin, p.orders, p.news = stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)
	_ = p.orders.Encode(job) // if this fails, the process has ended
	return p, nil
}

// hear is what the process tells next. If it ends without a word, the error has
// its exit status.
func (p *process) hear(told *Account) error {
	if failed := p.news.Decode(told); failed != nil {
		return cmp.Or(p.Wait(), failed)
	}
	if told.Error != "" {
		return errors.New(told.Error)
	}
	return nil
}

// signal sends a signal by its name. Where there are none, the error says so.
func (p *process) signal(name string) error {
	kill := fmt.Sprintf("kill -%s %d", name, p.Process.Pid)
	if out, err := exec.Command("sh", "-c", kill).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", kill, err, out)
	}
	p.asleep = name == "STOP"
	return nil
}

// kill ends it with no time to put anything in order.
func (p *process) kill() error {
	p.killed = true
	return p.Process.Kill()
}

// ClientMain is the life of a client process. It does not return.
func ClientMain() {
	signal.Ignore(os.Interrupt) // a terminal sends it to everybody; the parent is in charge
	ctx, cancel := context.WithCancel(context.Background())
	orders, news := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var job Job
	err := orders.Decode(&job)
	var c *crew
	if err == nil {
		c, err = connect(job)
	}
	if err != nil {
		_ = news.Encode(Account{Error: err.Error()})
		os.Exit(1)
	}
	_ = news.Encode(Account{}) // it is ready
	var at time.Duration
	if orders.Decode(&at) != nil {
		cancel()
	}
	go func() {
		var anew scenario.Load
		for orders.Decode(&anew) == nil { // until the parent is gone, or wants no more
			c.renew(anew)
		}
		cancel()
		time.Sleep(grace)
		os.Exit(1)
	}()
	_ = news.Encode(c.work(ctx, at))
	os.Exit(0)
}

// Fleet is the client processes of one run.
type Fleet struct {
	clients []*process
	told    []Account // by client
	ends    []error   // by client: why it ended before it told
	away    sync.WaitGroup
}

// Launch starts a process of a role for each job and returns when all are ready
// to begin. The caller closes the fleet.
func Launch(ctx context.Context, role string, jobs []Job) (f *Fleet, err error) {
	ctx, cancel := context.WithTimeout(ctx, readiness)
	defer cancel()
	f = &Fleet{told: make([]Account, len(jobs)), ends: make([]error, len(jobs))}
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
		if err := c.hear(&Account{}); err != nil {
			f.Close()
			return nil, cmp.Or(context.Cause(ctx), fmt.Errorf("client %d: %w", jobs[i].Client, err))
		}
	}
	return f, nil
}

// Start lets everybody begin at a moment on the machine's clock.
func (f *Fleet) Start(at time.Duration) (err error) {
	for i, c := range f.clients {
		err = errors.Join(err, c.orders.Encode(at))
		f.away.Go(func() {
			f.ends[i] = c.hear(&f.told[i])
			_ = c.Wait()
		})
	}
	return err
}

// Stop sends everybody home and returns when all are, with what they told. A
// client that was killed tells nothing.
func (f *Fleet) Stop() (_ []Account, err error) {
	for _, c := range f.clients {
		if c.asleep { // it hears nothing
			_ = c.signal("CONT")
		}
		_ = c.stdin.Close()
	}
	defer time.AfterFunc(grace, f.Close).Stop()
	f.away.Wait()
	for i, end := range f.ends {
		if end != nil && !f.clients[i].killed {
			err = errors.Join(err, fmt.Errorf("client %d died: %w", i, end))
		}
	}
	return f.told, err
}

// Close ends every process that still runs.
func (f *Fleet) Close() {
	for _, c := range f.clients {
		_ = c.Process.Kill()
	}
}

// renew has the callers of all clients begin anew with a load, as if their
// processes were restarted. That takes no time. A client that was killed hears
// nothing.
func (f *Fleet) renew(l scenario.Load) {
	for _, c := range f.clients {
		_ = c.orders.Encode(l)
	}
}
