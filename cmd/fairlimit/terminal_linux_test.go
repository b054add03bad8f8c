package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

// scripted is a command on a terminal, as script(1) makes one.
func scripted(cmd *exec.Cmd) *exec.Cmd {
	line := "exec"
	for _, arg := range cmd.Args {
		line += " '" + arg + "'"
	}
	on := exec.Command("script", "-qec", line, "/dev/null")
	on.Env = cmd.Env
	return on
}

func TestOutputFitsATerminalOf80Columns(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	long, wide := strings.Repeat("long ", 60), strings.Repeat("税", 60)
	most := fairlimit.Quota{Permits: 1_000_000_000, Per: 10 * 365 * 24 * time.Hour}
	less := fairlimit.Quota{Permits: most.Permits - 1, Per: most.Per - time.Microsecond}
	for _, name := range []string{long, wide, "x"} {
		s.backlog(name, most, 2)
		s.does("quota", name, "1000000000/87600h", "999999999/87599h")
		q := s.queue(name, most, fairlimit.WithExtraQuota(less))
		require.NoError(t, q.Pause(t.Context(), 364*24*time.Hour))
		for range 4 {
			_, err := q.ReserveN(t.Context(), 999_999_999)
			require.NoError(t, err)
		}
	}
	out := finish(t, scripted(s.command("ls"))).out
	fits(t, out)
	require.Equal(t, 4, strings.Count(out, "\n"))
	require.Contains(t, out, "…  ")
	require.Contains(t, s.does("ls"), long, "a pipe gets the whole name")
	for _, name := range []string{long, wide} {
		for _, command := range []string{"look", "quota"} {
			out := finish(t, scripted(s.command(command, name))).out
			fits(t, out)
			require.Contains(t, out, "…\r\n")
		}
	}
}

func TestWatchDrawsInPlaceOnATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Every(time.Hour), 2)
	cmd := scripted(s.command("look", "tax", "-watch"))
	keys, err := cmd.StdinPipe()
	require.NoError(t, err)
	lines, _ := start(t, cmd)
	assert.Equal(t, "tax", lines())
	assert.Regexp(t, "^  backlog   1 permit, the last in ", lines())
	for range 6 {
		line := lines()
		assert.Regexp(t, `^  `, line)
		fits(t, line)
	}
	_, err = q.ReserveN(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, "\x1b[8A\x1b[Jtax", lines(), "as many lines up as the view has")
	assert.Regexp(t, "^  backlog   2 permits, the last in ", lines())
	_, err = keys.Write([]byte{3}) // Ctrl-C
	require.NoError(t, err)
	for line := lines(); line != "" && line != "^C"; line = lines() { // the view may be drawn once more
		assert.Regexp(t, `^(  |\x1b\[8A\x1b\[Jtax$)`, line)
	}
	require.NoError(t, cmd.Wait())
}
