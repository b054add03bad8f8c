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
	s := newShell(t)
	wait := "wait tax -quota 10/1s~2/1h -quota 5/1m~burst~2 -timeout 50s -guard 1s "
	s.does(wait + "-n 2 -- true")
	require.Empty(t, s.ends(124, wait+"-- echo hello",
		`^fairlimit: "tax": refused: the turn would come in 1h\S+, later than -timeout 50s \(\S+ left\) allows\n$`))
}

func TestWaitGoesByTheStoredQuota(t *testing.T) {
	s := newShell(t)
	s.ends(125, "wait tax -- true", "none is stored: give one with -quota")
	s.does("quota tax 2/1h; tokens 5/1h")
	require.Equal(t, "hello\n", s.does("wait tax -amounts tokens=4 -- echo hello"))
	s.ends(124, "wait tax -amounts tokens=2 -timeout 1m -- true", "refused")
	s.does("wait tax -- true")
	s.ends(124, "wait tax -timeout 1m -- true", "refused")
	s.ends(125, "wait tax -n 3 -- true", "3")
}

func TestACommandThatCannotBeRunInItsTurn(t *testing.T) {
	s := newShell(t)
	gone := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.WriteFile(gone, []byte("#!/nowhere/nix\n"), 0o700))
	s.ends(127, "wait tax -quota 1000/1h -- "+gone, "no such file")
}

func TestASignalWhileWaitingGivesThePermitsBack(t *testing.T) {
	t.Parallel()
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		t.Run(signal.String(), func(t *testing.T) {
			s := newShell(t)
			s.backlog("tax", fairlimit.Quota{Permits: 2, Per: time.Hour}, 3)
			cmd := s.command("wait", "tax", "-quota", "2/1h", "-n", "2", "--", "echo", "hello")
			lines, says := s.start(cmd)
			require.Regexp(t, `^fairlimit: tax: my turn comes in (2h|1h59m\d+s)$`, says())
			require.NoError(t, cmd.Process.Signal(signal))
			require.Regexp(t, `^fairlimit: .*context canceled: `+signal.String()+`$`, says())
			require.Empty(t, says())
			require.Empty(t, lines(), "nothing was run")
			require.Error(t, cmd.Wait())
			require.Equal(t, status, cmd.ProcessState.ExitCode())
			require.Contains(t, s.does("look tax"), "  backlog   1,")
		})
	}
}

func TestWaitBecomesTheCommand(t *testing.T) {
	s := newShell(t)
	cmd := s.command("wait", "tax", "-quota", "1000/1s", "--", "sh", "-c",
		`trap "cat; exit 9" TERM; echo "$$ $0 $1"; while :; do sleep 0.01; done`, "-nix", "--")
	cmd.Stdin = strings.NewReader("input\n")
	lines, _ := s.start(cmd)
	require.Equal(t, fmt.Sprintf("%d -nix --", cmd.Process.Pid), lines(), "there is one process")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "input", lines())
	require.Error(t, cmd.Wait())
	require.Equal(t, 9, cmd.ProcessState.ExitCode())
}

// Whenever the signal comes: before the process waits, while it does, or while
// its command runs.
func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Second), 3)
	cmd := s.command("wait", "tax", "-quota", "1/1s", "--", "sh", "-c", "kill -HUP $$; echo alive")
	signals := `while kill -HUP $$; do sleep 0.02; done >/dev/null 2>&1`
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; (` + signals + `) & exec "$0" "$@"`}, cmd.Args...)
	var err error
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "alive\n", string(out))
}
