package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// asMain, set in the environment, makes the test binary the program.
const asMain = "FAIRLIMIT_BENCH_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(spins) != "" {
		spin()
		return
	}
	if os.Getenv(asMain) != "" {
		breakFair(os.Getenv(broken))
		main()
		return
	}
	redistest.Parallel(4)
	os.Exit(m.Run())
}

// spin keeps a processor busy until whoever began it has ended or kills it.
func spin() {
	for parent := os.Getppid(); os.Getppid() == parent; {
	}
}

// program is a run of the program, not yet started.
type program struct {
	*exec.Cmd
	stdout bytes.Buffer
	stderr lines
}

// lines is what a program has printed so far, also while it runs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func bench(ctx context.Context, t *testing.T, args ...string) *program {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	p := &program{Cmd: exec.CommandContext(ctx, path, args...)}
	// Without GORACE every process ends a second late.
	p.Env = append(os.Environ(), asMain+"=1", "TMPDIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	return p
}

// callsAreThrough is how the progress shows that the upstream was called.
var callsAreThrough = regexp.MustCompile(`, [1-9][0-9]* grants so far`)

// interruptOnceCallsAreThrough starts the program, and interrupts it.
func (p *program) interruptOnceCallsAreThrough(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool { return callsAreThrough.MatchString(p.stderr.String()) },
		50*time.Second, 10*time.Millisecond, "nobody has called")
	require.NoError(t, p.Process.Signal(os.Interrupt))
}

// status is what the program ends with.
func (p *program) status(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return p.ProcessState.ExitCode()
}

// cannotRun runs the program, which says why it cannot, in one line.
func (p *program) cannotRun(t *testing.T, says string) {
	t.Helper()
	require.Equal(t, 2, p.status(t, p.Run()))
	require.Empty(t, p.stdout.String())
	require.Equal(t, 1, strings.Count(p.stderr.String(), "\n"), p.stderr.String())
	require.Contains(t, p.stderr.String(), says)
}

func TestWhatCannotBeDoneIsToldInOneLine(t *testing.T) {
	t.Parallel()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	away := nobody.Addr().String()
	require.NoError(t, nobody.Close())

	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no such flag":        {[]string{"-nothing"}, "-h"},
		"an argument":         {[]string{"steady"}, "-h"},
		"no number":           {[]string{"-clients", "x"}, "-clients"},
		"no such scenario":    {[]string{"-scenario", "nothing"}, "-list"},
		"no such engine":      {[]string{"-engines", "fair,nothing"}, "-list"},
		"no quota":            {[]string{"-quota", "20"}, "20/1s"},
		"nothing allowed":     {[]string{"-quota", "0/1s"}, "at least 1"},
		"more burst":          {[]string{"-burst", "21"}, "-burst"},
		"no unit":             {[]string{"-duration", "4"}, "-duration"},
		"an engine twice":     {[]string{"-engines", "fair,window, fair"}, `"fair" is there twice`},
		"counts no tokens":    {[]string{"-scenario", "tokens", "-engines", "window"}, `no "window"`},
		"too many callers":    {[]string{"-callers", "20000"}, "are 80000 callers: a machine holds at most 10000"},
		"too many processes":  {[]string{"-clients", "20000"}, "-clients 20000"},
		"too greedy":          {[]string{"-scenario", "greedy", "-callers", "200"}, "11800 callers"},
		"too short":           {[]string{"-quota", "1/1h"}, "-duration"},
		"too much to hold":    {[]string{"-engines", "fair", "-quota", "2000000000/1s"}, "fair"},
		"nowhere to write":    {[]string{"-json", t.TempDir()}, "-json"},
		"server away":         {[]string{"-redis", away}, "leave -redis out"},
		"nothing to simulate": {[]string{"-simulate", "-scenario", "crash"}, "real processes"},
		"two servers":         {[]string{"-simulate", "-redis", away}, "leave -redis out"},
		"no directory":        {[]string{"-out", "/dev/null/x"}, "-out"},
		"address unread":      {[]string{"-redis", "http://" + away}, "-redis"},
	} {
		t.Run(name, func(t *testing.T) {
			p := bench(t.Context(), t, c.args...)
			p.cannotRun(t, c.says)
		})
	}
}

func TestHelpAndListAreNoErrors(t *testing.T) {
	for args, shows := range map[string]string{
		"-h": "-guard duration", "-list": "burst", "speed -h": "-rows names", "soak -h": "-seed number",
	} {
		p := bench(t.Context(), t, strings.Fields(args)...)
		require.Zero(t, p.status(t, p.Run()))
		require.Contains(t, p.stdout.String(), shows)
		require.Empty(t, p.stderr.String())
	}
}

// figures are the parts of the JSON that the tests look at.
type figures struct {
	Scenario string
	Backend  string
	Seconds  float64
	ApartMS  float64 `json:"apart_ms"`
	StallMS  float64 `json:"stall_ms"`
	Quota    struct {
		GuardMS float64 `json:"guard_ms"`
	}
	Goal    *struct{ Met bool }
	Engines []map[string]any
}

func read(t *testing.T, stdout []byte) (all []figures) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(stdout))
	for decoder.More() {
		var one figures
		require.NoError(t, decoder.Decode(&one))
		all = append(all, one)
	}
	return all
}

func TestOneCallerAlone(t *testing.T) {
	t.Parallel()
	_, all := succeeds(t, nil, "-engines", "fair", "-quota", "5/100ms", "-burst", "1",
		"-duration", "1s", "-clients", "1", "-callers", "1", "-guard", "10ms")
	fair := all[0].Engines[0]
	require.Zero(t, fair["inversions"])
	require.InDelta(t, 1, fair["jain"], 1e-9)
	require.Greater(t, fair["grants"], 0.0)
}

func TestCtrlCReportsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	require.NoError(t, err)
	defer server.Close()
	bounded, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	p := bench(bounded, t, "-redis", server.Addr(), "-json", "-", "-engines", "fair",
		"-duration", "1h", "-quota", "5/100ms", "-guard", "100ms")
	p.interruptOnceCallsAreThrough(t)
	require.Zero(t, p.status(t, p.Wait()), p.stderr.String())
	one := read(t, p.stdout.Bytes())[0]
	require.InDelta(t, 3600, one.Seconds, 1e-9)
	require.Less(t, one.Engines[0]["seconds"], 60.0)
	require.Greater(t, one.Engines[0]["grants"], 0.0)
	require.Contains(t, p.stderr.String(), "ended after")

	left, err := server.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, left, "the run cleans up behind itself")
}
