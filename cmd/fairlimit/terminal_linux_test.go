package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

// startOnTerminal starts a command on a terminal of 80 columns and returns what a
// person there would see and type into.
func startOnTerminal(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	// Without O_NONBLOCK a read would keep the file from being closed.
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	person := os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { _ = person.Close() })
	var locked, number int32
	size := [4]uint16{24, width}
	for request, argument := range map[uintptr]unsafe.Pointer{
		syscall.TIOCSPTLCK: unsafe.Pointer(&locked),
		syscall.TIOCGPTN:   unsafe.Pointer(&number),
		syscall.TIOCSWINSZ: unsafe.Pointer(&size),
	} {
		_, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
		require.Zero(t, code)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	return person
}

// text is all that a command has shown on a terminal when it has ended.
func text(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	lines := linesOf(startOnTerminal(t, cmd))
	var all strings.Builder
	for line := lines(); line != ""; line = lines() {
		all.WriteString(line + "\n")
	}
	require.NoError(t, cmd.Wait())
	return all.String()
}

func TestOutputFitsATerminalOf80Columns(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	long, wide := strings.Repeat("long ", 60), strings.Repeat("税", 60)
	most := fairlimit.Quota{Permits: 1_000_000_000, Per: 10 * 365 * 24 * time.Hour}
	less := fairlimit.Quota{Permits: most.Permits - 1, Per: most.Per - time.Microsecond}
	for _, name := range []string{long, wide, "x"} {
		s.backlog(name, most, 2)
		q := s.queue(name, most, fairlimit.WithExtraQuota(less))
		require.NoError(t, q.Pause(t.Context(), 364*24*time.Hour))
		for range 4 {
			_, err := q.ReserveN(t.Context(), 999_999_999)
			require.NoError(t, err)
		}
	}
	out := text(t, s.command("ls"))
	fits(t, out)
	require.Equal(t, 4, strings.Count(out, "\n"))
	require.Contains(t, out, "…  ")
	require.Contains(t, s.does("ls"), long, "a pipe gets the whole name")
	for _, name := range []string{long, wide} {
		for _, command := range []string{"look", "quota"} {
			out := text(t, s.command(command, name))
			fits(t, out)
			require.Contains(t, out, "…\n")
		}
	}
}

func TestWatchDrawsInPlaceOnATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Every(time.Hour), 2)
	cmd := s.command("look", "tax", "-watch")
	lines := linesOf(startOnTerminal(t, cmd))
	view := func() {
		assert.Contains(t, lines(), "tax")
		assert.Equal(t, "  backlog   1 permit", lines())
		for range 8 {
			line := lines()
			assert.Regexp(t, `^  `, line)
			fits(t, line)
		}
	}
	view()
	_, err := q.ReserveN(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, "\x1b[10A\x1b[Jtax", lines(), "as many lines up as the view has")
	assert.Equal(t, "  backlog   2 permits", lines())
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	for line := lines(); line != ""; line = lines() {
		assert.Regexp(t, `^  `, line)
	}
	require.NoError(t, cmd.Wait())
}
