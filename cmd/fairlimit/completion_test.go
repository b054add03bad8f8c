package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

// completed is what bash makes of a line when tab is pressed at its end.
func completed(t *testing.T, s *shell, line string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(dir, "fairlimit")))
	bash := exec.Command("bash", "--norc", "-c", `
		source <(fairlimit completion bash)
		COMP_LINE=$1 COMP_POINT=${#1}
		_fairlimit fairlimit
		printf '%s\n' "${COMPREPLY[@]}"`, "bash", line)
	bash.Env = append(s.env, asCommand+"=1", "GORACE=atexit_sleep_ms=0", "PATH="+dir+":"+os.Getenv("PATH"))
	r := finish(t, bash)
	require.Zero(t, r.status, r.err)
	require.Empty(t, r.err)
	return strings.Join(strings.Fields(r.out), " ")
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, name := range []string{"tax-office", "tax:north", "other", "with space"} {
		s.backlog(name, fairlimit.Every(time.Hour), 1)
	}
	with := "fairlimit -prefix " + s.prefix + " "
	for line, want := range map[string]string{
		"fairlimit ":                      "ls look pause reset quota serve wait check completion version help",
		"fairlimit l":                     "ls look",
		"fairlimit -":                     "-prefix -redis",
		"fairlimit -redis x:1 pa":         "pause",
		"fairlimit nix ":                  "",
		"fairlimit ls ":                   "",
		"fairlimit ls -n":                 "-names",
		"fairlimit help re":               "reset",
		"fairlimit completion ":           "bash",
		"fairlimit -redis ":               "",
		with + "look ":                    "other tax-office tax:north",
		with + "look ta":                  "tax-office tax:north",
		with + "look tax:n":               "north",
		with + "look -json t":             "tax-office tax:north",
		with + "look other ":              "",
		with + "look -w":                  "-watch",
		with + "wait -quota 1/1s o":       "other",
		with + "wait -quota ":             "",
		with + "wait o":                   "other",
		with + "wait other -- l":          "",
		with + "wait -- o":                "",
		with + "-redis=127.0.0.1:1 look":  "look",
		with + "-redis 127.0.0.1:1 look ": "",
	} {
		assert.Equal(t, want, completed(t, s, line), line)
	}
}
