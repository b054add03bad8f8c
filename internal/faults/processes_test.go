package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// process is a further run of this binary, in which the same test calls
// [serveOrders]: it has a limiter of its own, and callers that call an upstream
// as soon as their turn has come. The upstream is the test's.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
}

// setup is what a process is made with.
type setup struct {
	Redis, Name, Upstream string
	Who                   int
	Flow                  string // "" for none
	Quota                 fairlimit.Quota
	Within, Guard         time.Duration
}

const setupVariable = "FAIRLIMIT_TEST_PROCESS"

// startProcess starts one that ends with the test. It is ready.
func startProcess(t *testing.T, s setup) *process {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), setupVariable+"="+string(text))
	p := &process{t: t, cmd: cmd}
	p.orders, err = cmd.StdinPipe()
	require.NoError(t, err)
	answers, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.answers = bufio.NewReader(answers)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(p.end)
	require.Equal(t, "ready", p.answer())
	return p
}

// end waits until the process has. It fails the test if the process failed, for
// instance because a goroutine was left.
func (p *process) end() {
	if p.cmd.ProcessState != nil { // it was killed
		return
	}
	p.signal(syscall.SIGCONT)
	_ = p.orders.Close()
	_, _ = io.Copy(io.Discard, p.answers)
	assert.NoError(p.t, p.cmd.Wait())
}

// signal stops the process and lets it go on, as a machine does that somebody
// takes the processor away from.
func (p *process) signal(s os.Signal) { assert.NoError(p.t, p.cmd.Process.Signal(s)) }

func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	require.Error(p.t, p.cmd.Wait())
}

func (p *process) order(format string, words ...any) {
	p.t.Helper()
	_, err := fmt.Fprintf(p.orders, format+"\n", words...)
	require.NoError(p.t, err)
}

func (p *process) answer() string {
	p.t.Helper()
	line, err := p.answers.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSuffix(line, "\n")
}

// does gives an order and returns when it was carried out, without an error.
func (p *process) does(format string, words ...any) {
	p.t.Helper()
	p.order(format, words...)
	require.Equal(p.t, "ok", p.answer())
}

// report waits for the callers of the process and tells what became of them.
func (p *process) report() (r report) {
	p.t.Helper()
	p.order("report")
	require.NoError(p.t, json.Unmarshal([]byte(p.answer()), &r))
	return r
}

// report is what a process tells of its callers and its questions.
type report struct {
	Misses int
	Errors []string
	Ways   []time.Duration // of each call, from a turn that was taken to the upstream's answer
	Latest time.Duration   // after its slot, as a caller went
}

// served is a process seen from within.
type served struct {
	setup
	t       *testing.T
	queue   *fairlimit.Queue
	granted chan struct{}
	callers sync.WaitGroup

	mu sync.Mutex
	report
}

// serveOrders does what the process is told. It reports whether this is one,
// which has then been told to end.
func serveOrders(t *testing.T) bool {
	text := os.Getenv(setupVariable)
	if text == "" {
		return false
	}
	s := &served{t: t, granted: make(chan struct{}, 1)}
	require.NoError(t, json.Unmarshal([]byte(text), &s.setup))
	rdb := redis.NewClient(&redis.Options{Addr: s.Redis, ReadTimeout: 4500 * time.Millisecond})
	defer redistest.Close(rdb)
	opts := []fairlimit.Option{
		fairlimit.WithPauseWithin(s.Within), fairlimit.WithGuard(s.Guard), fairlimit.WithTrace(s.trace()),
	}
	if s.Flow != "" {
		opts = append(opts, fairlimit.WithFlow(s.Flow, 1))
	}
	queue, err := fairlimit.NewQueue(rdb, s.Name, s.Quota, opts...)
	require.NoError(t, err)
	s.queue = queue
	_, err = queue.Status(t.Context()) // the connection is there
	require.NoError(t, err)
	fmt.Println("ready")
	ctx, stop := context.WithCancel(t.Context())
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		s.obey(ctx, orders.Text())
	}
	stop()
	s.callers.Wait()
	http.DefaultClient.CloseIdleConnections()
	return true
}

func (s *served) obey(ctx context.Context, order string) {
	var count int
	var text string
	var err error
	switch word, what, _ := strings.Cut(order, " "); word {
	case "wait": // so many callers, each when the one before has its turn
		_, err = fmt.Sscan(what, &count)
		for range count {
			s.lineUp()
		}
	case "call": // so many callers, each again and again until the process ends
		_, err = fmt.Sscan(what, &count)
		for range count {
			s.callers.Go(func() {
				for ctx.Err() == nil {
					s.call(ctx)
				}
			})
		}
	case "report":
		s.callers.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.NoError(s.t, json.NewEncoder(os.Stdout).Encode(&s.report))
		return
	default:
		s.t.Fatalf("no order: %q", order)
	}
	if text = "ok"; err != nil {
		text = err.Error()
	}
	fmt.Println(text)
}

// lineUp starts a caller, and returns when it has a turn, or none.
func (s *served) lineUp() {
	done := make(chan struct{})
	s.callers.Go(func() {
		defer close(done)
		s.call(context.WithoutCancel(s.t.Context()))
	})
	select {
	case <-s.granted:
	case <-done:
	}
}

// call waits for a turn and calls the upstream.
func (s *served) call(ctx context.Context) {
	err := s.queue.Wait(ctx)
	went := time.Now()
	if err == nil {
		err = callUpstream(fmt.Sprintf("%s/%d", s.Upstream, s.Who))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
		return
	}
	s.Ways = append(s.Ways, time.Since(went))
}

func callUpstream(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// trace writes the report.
func (s *served) trace() *fairlimit.Trace {
	return &fairlimit.Trace{
		Granted: func(int, time.Duration) {
			select {
			case s.granted <- struct{}{}:
			default:
			}
		},
		Taken: func(_ int, lateness time.Duration, _ bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Latest = max(s.Latest, lateness)
		},
		Missed: func(int, time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Misses++
		},
	}
}

// upstream is what callers call. It keeps a log of its own.
type upstream struct {
	url string

	mu  sync.Mutex
	log []arrival
}

// arrival is one call of a process.
type arrival struct {
	at  time.Time
	who int
}

func startUpstream(t *testing.T) *upstream {
	u := &upstream{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a := arrival{at: time.Now()}
		_, err := fmt.Sscanf(r.URL.Path, "/%d", &a.who)
		u.mu.Lock()
		defer u.mu.Unlock()
		if assert.NoError(t, err) {
			u.log = append(u.log, a)
		}
	}))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// calls is the log, in the order of arrival.
func (u *upstream) calls() []arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	log := slices.Clone(u.log)
	slices.SortFunc(log, func(a, b arrival) int { return a.at.Compare(b.at) })
	return log
}

// most is the most calls that arrived in any stretch of so long.
func most(log []arrival, per time.Duration) (most int) {
	first := 0
	for i := range log {
		for first < i && log[i].at.Sub(log[first].at) >= per {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
