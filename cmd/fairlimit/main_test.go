package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// asCommand turns the test binary into the command, so that what is tested is a
// process.
const asCommand = "FAIRLIMIT_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "1" {
		main()
	}
	// A process that ignores a signal, as under nohup, hands that on to those it
	// starts; one that catches it does not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	redistest.Parallel(4)
	redistest.Main(m)
}

// shell is where commands are run: with a Redis, and a prefix that no other
// test uses.
type shell struct {
	t      *testing.T
	rdb    *redis.Client
	prefix string
	env    []string
}

func newShell(t *testing.T) *shell {
	rdb := redistest.Standalone(t)
	s := &shell{t: t, rdb: rdb, prefix: redistest.Name(t) + ":"}
	s.env = []string{"FAIRLIMIT_REDIS=" + rdb.Options().Addr}
	return s
}

// queue is one of a program that is no command.
func (s *shell) queue(name string, quota fairlimit.Quota, opts ...fairlimit.Option) *fairlimit.Queue {
	s.t.Helper()
	q, err := fairlimit.NewQueue(s.rdb, name, quota,
		append([]fairlimit.Option{fairlimit.WithGuard(0), fairlimit.WithPrefix(s.prefix)}, opts...)...)
	require.NoError(s.t, err)
	return q
}

// backlog takes so many permits of an idle queue.
func (s *shell) backlog(name string, quota fairlimit.Quota, permits int) *fairlimit.Queue {
	s.t.Helper()
	q := s.queue(name, quota)
	for range permits {
		_, err := q.ReserveN(s.t.Context(), 1)
		require.NoError(s.t, err)
	}
	return q
}

// command is one with the prefix, which has not been started.
func (s *shell) command(args ...string) *exec.Cmd {
	if s.prefix != "" {
		args = append([]string{"-prefix", s.prefix}, args...)
	}
	return process(s.env, args...)
}

func process(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append([]string{
		asCommand + "=1", "PATH=" + os.Getenv("PATH"), "TERM=xterm",
		"GORACE=atexit_sleep_ms=0", // else each process ends a second later
	}, env...)
	return cmd
}

// result is what a process left.
type result struct {
	status   int
	out, err string
}

func (s *shell) run(args ...string) result {
	s.t.Helper()
	return finish(s.t, s.command(args...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if !errors.As(err, new(*exec.ExitError)) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), problems.String()}
}

// start starts a command, and returns functions that read what it writes, line by
// line.
func start(t *testing.T, cmd *exec.Cmd) (lines, problems func() string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return linesOf(out), linesOf(errs)
}

// linesOf returns a function that reads a line, empty at the end.
func linesOf(r io.Reader) func() string {
	b := bufio.NewReader(r)
	return func() string {
		line, _ := b.ReadString('\n')
		return strings.TrimRight(line, "\r\n")
	}
}

// does is run of a command that must not fail.
func (s *shell) does(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	require.Zero(s.t, r.status, r.err)
	require.Empty(s.t, r.err)
	return r.out
}
