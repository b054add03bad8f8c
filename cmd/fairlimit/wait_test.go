package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestAllQuotasOfWaitHold(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	quotas := []string{"-quota", "10/1s 2/1h", "-quota", "5/1m burst 2", "-timeout", "50s", "-guard", "1s"}
	wait := func(more ...string) result {
		return s.run(append(append([]string{"wait", "tax"}, quotas...), more...)...)
	}
	require.Zero(t, wait("-n", "2", "--", "true").status)
	r := wait("--", "echo", "hello")
	require.Equal(t, 124, r.status)
	require.Empty(t, r.out)
	require.Regexp(t, `^fairlimit: "tax": refused: the turn would come in 1h\S+, `+
		`later than -timeout 50s \(\S+ left\) allows\n$`, r.err)
}

func TestACommandThatCannotBeRunInItsTurn(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	gone := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.WriteFile(gone, []byte("#!/nowhere/nix\n"), 0o700))
	r := s.run("wait", "tax", "-quota", "1000/1h", "--", gone)
	require.Equal(t, 127, r.status)
	require.Contains(t, r.err, "no such file")
	r = s.run("wait", "tax", "--", "true")
	require.Equal(t, 125, r.status)
	require.Contains(t, r.err, "none is stored: give one with -quota")
}

func TestASignalWhileWaitingGivesThePermitsBack(t *testing.T) {
	t.Parallel()
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.backlog("tax", fairlimit.Quota{Permits: 2, Per: time.Hour}, 3)
			cmd := s.command("wait", "tax", "-quota", "2/1h", "-n", "2", "--", "echo", "hello")
			lines, says := start(t, cmd)
			require.Regexp(t, `^fairlimit: tax: my turn comes in (2h|1h59m\d+s)$`, says())
			require.NoError(t, cmd.Process.Signal(signal))
			require.Regexp(t, `^fairlimit: .*context canceled: `+signal.String()+`$`, says())
			require.Empty(t, says())
			require.Empty(t, lines(), "nothing was run")
			require.ErrorAs(t, cmd.Wait(), new(*exec.ExitError))
			require.Equal(t, status, cmd.ProcessState.ExitCode())
			require.Contains(t, s.does("look", "tax"), "  backlog   1,")
		})
	}
}

func TestWaitBecomesTheCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	cmd := s.command("wait", "tax", "-quota", "1000/1s", "--", "sh", "-c",
		`trap "cat; exit 9" TERM; echo "$$ $0 $1"; while :; do sleep 0.01; done`, "-nix", "--")
	cmd.Stdin = strings.NewReader("input\n")
	lines, _ := start(t, cmd)
	require.Equal(t, fmt.Sprintf("%d -nix --", cmd.Process.Pid), lines(), "there is one process")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "input", lines())
	require.Error(t, cmd.Wait())
	require.Equal(t, 9, cmd.ProcessState.ExitCode())
}

// Whenever the signal comes: before the process waits, while it does, or while
// its command runs.
func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Second), 3)
	inner := s.command("wait", "tax", "-quota", "1/1s", "--", "sh", "-c", "kill -HUP $$; echo alive")
	cmd := exec.Command("sh", append([]string{"-c", `trap "" HUP; echo ready; exec "$0" "$@"`}, inner.Args...)...)
	cmd.Env = inner.Env
	lines, _ := start(t, cmd)
	require.Equal(t, "ready", lines())
	alive := make(chan string, 1)
	go func() { alive <- lines() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for line := ""; line == ""; {
		select {
		case line = <-alive:
			require.Equal(t, "alive", line)
		case <-tick.C:
			require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		}
	}
	require.NoError(t, cmd.Wait())
}
