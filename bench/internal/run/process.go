package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

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
	did   chan Did      // one is told for each deed
	ended chan struct{} // closed when it has ended and everything it told is here

	mu      sync.Mutex
	account account
}

// account is what a client has told so far.
type account struct {
	calls  []measure.Call
	stalls []measure.Stall
	misses measure.Misses
	paused []time.Duration // when it recorded pauses
	done   Done
	isDone bool
	failed string
}

// mostDeeds is how many a process may be told without anybody listening for the
// end of the first.
const mostDeeds = 16

func start(cmd *exec.Cmd, job Job, died chan<- error) (*process, error) {
	p := &process{
		client: job.Client, cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{}),
		did: make(chan Did, mostDeeds),
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
		return nil, fmt.Errorf("client %d cannot be told its job: %w", job.Client, err)
	}
	return p, nil
}

// listen writes down what the process tells until it ends.
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
	told := p.told()
	if !told.isDone && !p.condemned.Load() {
		died <- fmt.Errorf("client %d died: %s", p.client, p.why(told, err))
	}
	close(p.ended)
}

func (p *process) note(news News) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.account.stalls = append(p.account.stalls, news.Stalls...)
	if news.Call != nil || news.Done != nil {
		p.account.misses = news.Misses
	}
	switch {
	case news.Ready:
		close(p.ready)
	case news.Call != nil:
		p.account.calls = append(p.account.calls, *news.Call)
		p.account.done.RedisCalls = news.RedisCalls
	case news.Paused > 0:
		p.account.paused = append(p.account.paused, news.Paused)
	case news.Did != nil:
		p.did <- *news.Did
	case news.Done != nil:
		p.account.done, p.account.isDone = *news.Done, true
	case news.Failed != "":
		p.account.failed = news.Failed
	}
}

func (p *process) told() account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.account
}

// why is the best account there is of an early end: its own words, the end of
// its standard error, its exit status.
func (p *process) why(told account, exit error) string {
	if told.failed != "" {
		return told.failed
	}
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return strings.TrimSpace(fmt.Sprintf("%v %s", exit, lines[0]))
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) suspend() error {
	if p.hasEnded() || p.suspended.Swap(true) {
		return nil
	}
	return stop(p.cmd.Process)
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
