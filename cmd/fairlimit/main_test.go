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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
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

// shell is where a test runs commands: at a Redis, and under a prefix.
type shell struct {
	*testing.T
	rdb    *redis.Client
	prefix string
	env    []string
}

// newShell is for a test that runs beside others, under a prefix of its own.
func newShell(t *testing.T) *shell {
	t.Parallel()
	rdb := redistest.Standalone(t)
	return &shell{t, rdb, redistest.Name(t) + ":", []string{"FAIRLIMIT_REDIS=" + rdb.Options().Addr}}
}

// at is a shell for the Redis at an address.
func at(t *testing.T, address string, env ...string) *shell {
	return &shell{T: t, prefix: "fairlimit:", env: append(env, "FAIRLIMIT_REDIS="+address)}
}

// queue is one of a program that is no command.
func (s *shell) queue(name string, quota fairlimit.Quota, opts ...fairlimit.Option) *fairlimit.Queue {
	return limitertest.Named(s, s.rdb, name, quota, append(opts, fairlimit.WithPrefix(s.prefix))...)
}

// backlog takes so many permits of an idle queue.
func (s *shell) backlog(name string, quota fairlimit.Quota, permits int) *fairlimit.Queue {
	q := s.queue(name, quota)
	for range permits {
		_, err := q.ReserveN(s.Context(), 1)
		require.NoError(s, err)
	}
	return q
}

// put writes a key beside what limiters write.
func (s *shell) put(key, value string) {
	require.NoError(s, s.rdb.Set(s.Context(), s.prefix+key, value, 0).Err())
}

// command is one that has not been started.
func (s *shell) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"-prefix", s.prefix}, args...)...)
	cmd.Env = append([]string{
		asCommand + "=1", "PATH=" + os.Getenv("PATH"), "TERM=xterm",
		"GORACE=atexit_sleep_ms=0", // else each process ends a second later
	}, s.env...)
	return cmd
}

// run runs a line, in which ~ is a space of a word. It returns the exit status, and
// what was printed.
func (s *shell) run(line, input string) (status int, out, problems string) {
	s.Helper()
	words := strings.Fields(line)
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "~", " ")
	}
	cmd := s.command(words...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); !errors.As(err, new(*exec.ExitError)) {
		require.NoError(s, err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// does runs a line that has nothing to complain of, and returns what it prints.
func (s *shell) does(line string) string {
	s.Helper()
	return s.ends(0, line, "^$")
}

// ends runs a line up to an exit status, with a match on standard error.
func (s *shell) ends(status int, line, complains string) (out string) {
	s.Helper()
	got, out, problems := s.run(line, "")
	assert.Equal(s, status, got, "%s: %s", line, problems)
	require.Regexp(s, complains, problems, line)
	return out
}

// start starts a command, and returns functions that read a line each of what it
// writes, empty at the end.
func (s *shell) start(cmd *exec.Cmd) (lines, problems func() string) {
	out, err := cmd.StdoutPipe()
	require.NoError(s, err)
	errs, err := cmd.StderrPipe()
	require.NoError(s, err)
	require.NoError(s, cmd.Start())
	linesOf := func(r io.Reader) func() string {
		b := bufio.NewReader(r)
		return func() string {
			line, _ := b.ReadString('\n')
			return strings.TrimRight(line, "\r\n")
		}
	}
	return linesOf(out), linesOf(errs)
}
