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
	"strconv"
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

// A process is a further run of this binary, in which the same test calls
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
	Quota                 fairlimit.Quota
	Within, Guard         time.Duration
}

const setupVariable = "FAIRLIMIT_TEST_PROCESS"

// startProcess starts one that ends with the test. It is ready.
func startProcess(t *testing.T, s setup) *process {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^"+top+"$")
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
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.orders.Close()
	_, _ = io.Copy(io.Discard, p.answers)
	assert.NoError(p.t, p.cmd.Wait())
}

// stop lets the process stand still, as a machine does that somebody takes the
// processor away from.
func (p *process) stop() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
}

func (p *process) goOn() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGCONT))
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
	Went, Misses, Unconfirmed int
	Waves                     int // of misses, each at one moment
	Errors                    []string
	Asked                     map[string]int  // questions, by kind
	Slowest                   time.Duration   // question
	Ways                      []time.Duration // of each call, from a turn that was taken to the upstream's answer
	Latest                    time.Duration   // after its slot, as a caller went
	Called, Granted           []time.Time     // when each caller asked, and when it had its first turn
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
	missed time.Time // the last turn
}

// serveOrders does what the process is told. It reports whether this is one,
// which has then been told to end.
func serveOrders(t *testing.T) bool {
	text := os.Getenv(setupVariable)
	if text == "" {
		return false
	}
	s := &served{t: t, granted: make(chan struct{}, 1), report: report{Asked: map[string]int{}}}
	require.NoError(t, json.Unmarshal([]byte(text), &s.setup))
	rdb := redis.NewClient(&redis.Options{Addr: s.Redis, ReadTimeout: 4500 * time.Millisecond})
	defer redistest.Close(rdb)
	queue, err := fairlimit.NewQueue(rdb, s.Name, s.Quota, fairlimit.WithPauseWithin(s.Within),
		fairlimit.WithGuard(s.Guard), fairlimit.WithTrace(s.trace()))
	require.NoError(t, err)
	s.queue = queue
	_, err = queue.Status(t.Context()) // the connection is there
	require.NoError(t, err)
	fmt.Println("ready")
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		s.obey(strings.Fields(orders.Text()))
	}
	s.callers.Wait()
	http.DefaultClient.CloseIdleConnections()
	return true
}

func (s *served) obey(words []string) {
	switch words[0] {
	case "wait": // so many callers, each when the one before has its turn
		for count := number(s.t, words[1]); count > 0; count-- {
			s.lineUp()
		}
		s.did(nil)
	case "reserve": // so many callers with reservations
		for count := number(s.t, words[1]); count > 0; count-- {
			s.reserve()
		}
		s.did(nil)
	case "pause":
		s.did(s.queue.Pause(s.t.Context(), duration(s.t, words[1])))
	case "storm": // ten goroutines for each pause, all at once
		s.did(s.storm(words[1:]))
	case "reset":
		s.did(s.queue.Reset(s.t.Context()))
	case "report":
		s.callers.Wait()
		for redistest.Running("turns.(*Line).lookOnce") > 0 { // whose answer nobody waited for
			time.Sleep(time.Millisecond)
		}
		s.mu.Lock()
		text, err := json.Marshal(&s.report)
		s.mu.Unlock()
		require.NoError(s.t, err)
		fmt.Println(string(text))
	default:
		s.t.Fatalf("no order: %q", words)
	}
}

// lineUp starts a caller, and returns when it has a turn, or none.
func (s *served) lineUp() {
	caller, done := len(s.Called), make(chan struct{})
	s.Called = append(s.Called, time.Now())
	s.callers.Go(func() {
		defer close(done)
		s.call(caller, s.queue)
	})
	select {
	case <-s.granted:
	case <-done:
	}
	s.Granted = append(s.Granted, time.Now())
}

// reserve does the same where others may be granted turns meanwhile.
func (s *served) reserve() {
	caller := len(s.Called)
	s.Called = append(s.Called, time.Now())
	r, err := s.queue.ReserveN(s.t.Context(), 1)
	require.NoError(s.t, err)
	s.Granted = append(s.Granted, time.Now())
	s.callers.Go(func() { s.call(caller, r) })
}

func (s *served) did(err error) {
	if err == nil {
		fmt.Println("ok")
	} else {
		fmt.Println(err)
	}
}

// call waits for a turn and calls the upstream.
func (s *served) call(caller int, turn interface{ Wait(context.Context) error }) {
	err := turn.Wait(context.WithoutCancel(s.t.Context()))
	went := time.Now()
	if err == nil {
		err = callUpstream(fmt.Sprintf("%s/%d/%d", s.Upstream, s.Who, caller))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
		return
	}
	s.Went++
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
		Taken: func(_ int, lateness time.Duration, confirmed bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Latest = max(s.Latest, lateness)
			if !confirmed {
				s.Unconfirmed++
			}
		},
		Missed: func(int, time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Misses++
			if time.Since(s.missed) > 2*time.Millisecond {
				s.Waves++
			}
			s.missed = time.Now()
		},
		Asked: func(op string, _ int, took time.Duration, _ error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Asked[op]++
			s.Slowest = max(s.Slowest, took)
		},
	}
}

func (s *served) storm(pauses []string) error {
	const each = 10
	errs, start := make(chan error, each*len(pauses)), make(chan struct{})
	for _, pause := range pauses {
		for range each {
			go func() {
				<-start
				errs <- s.queue.Pause(s.t.Context(), duration(s.t, pause))
			}()
		}
	}
	close(start)
	var err error
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	return err
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// upstream is what callers call. It keeps a log of its own.
type upstream struct {
	url string

	mu  sync.Mutex
	log []arrival
}

// arrival is one call. Who is its process, caller its place there.
type arrival struct {
	at          time.Time
	who, caller int
}

func startUpstream(t *testing.T) *upstream {
	u := &upstream{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a := arrival{at: time.Now()}
		_, err := fmt.Sscanf(r.URL.Path, "/%d/%d", &a.who, &a.caller)
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
	sortByTime(log)
	return log
}

func sortByTime(log []arrival) {
	slices.SortFunc(log, func(a, b arrival) int { return a.at.Compare(b.at) })
}

// most is the most calls that arrived in any stretch of so long.
func most(log []arrival, per time.Duration) (most int) {
	first := 0
	for i := range log {
		if per <= 0 {
			return 1
		}
		for log[i].at.Sub(log[first].at) >= per {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// between counts the calls that arrived after one moment and before another.
func between(log []arrival, from, to time.Time) (count int) {
	for _, a := range log {
		if a.at.After(from) && a.at.Before(to) {
			count++
		}
	}
	return count
}
