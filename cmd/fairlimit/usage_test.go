package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nobody listens at port 1: what fails there fails before it asks.
const nowhere = "127.0.0.1:1"

func TestWhatCannotBeUnderstoodIsToldWithTheUsage(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, c := range []struct {
		status int
		line   string // with ~ for a space in a word
		says   string
	}{
		{2, "lock", `unknown command "lock"`},
		{2, "ls --nix", "unknown flag: --nix"},
		{2, "look", "accepts 1 arg(s), received 0"},
		{2, "pause a 30", "pause: 30: the unit is missing, as in 30ms, 30s or 30m"},
		{2, "pause -- a -5s", "pause: -5s: want more than 0"},
		{2, "quota a 20", `quota: "20" has no duration`},
		{2, "quota a 20/1s -forget", "quota: -forget goes without quotas"},
		{2, "-redis foo://x ls", "invalid URL scheme: foo"},
		{2, "-redis x:y ls", "-redis: it cannot be read; want a URL"},
		{2, "serve tax", "serve: tax: want NAME=QUOTAS"},
		{2, "serve =1/1s", "want NAME=QUOTAS"},
		{2, "serve tax=", "serve: tax: no quota"},
		{2, "serve tax=1/1s tax=1/1s", "serve: tax: it is given twice"},
		{2, "serve tax=6/1m;~flow~3/1m", `serve: tax: unit "flow": it needs another name`},
		{1, "serve -token-file " + empty, "no token"},
		{1, "serve -token-file /nowhere", "/nowhere: no such file"},
		{125, "wait a --", "want a name, and behind -- a command"},
		{125, "wait a b -- true", "want a name, and behind -- a command"},
		{125, "wait a -quota 1 -- true", `"1" has no duration`},
		{125, "wait a -timeout 0 -- true", "want more than 0"},
		{125, "wait a -quota 1/1s -guard -1s -- true", "WithGuard: -1s is negative"},
		{127, "wait a -quota 1/1s -- no-such-command", "executable file not found"},
		{126, "wait a -quota 1/1s -- " + empty, "permission denied"},
		{125, "wait a -amounts tokens -- true", "want <unit>=<number>"},
		{125, "wait a -quota 1/1s -amounts points=-1 -- true", "points"},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			status, out, problems := at(t, nowhere).run(c.line, "")
			assert.Equal(t, c.status, status, problems)
			assert.Empty(t, out)
			assert.Contains(t, problems, "fairlimit: ")
			assert.Contains(t, problems, c.says)
			if c.status == statusUsage {
				assert.Contains(t, problems, "\nusage: fairlimit ")
			}
		})
	}
}

func TestHelpIsNoErrorAndHasTheManual(t *testing.T) {
	t.Parallel()
	s := at(t, nowhere)
	for _, line := range []string{"", "help", "-h", "-help"} {
		require.Contains(t, s.does(line), "Exit status: 0 done; 1 failed;")
	}
	for _, c := range commands(new(connection)).Commands() {
		require.NotEmpty(t, c.Long, c.Name())
		require.True(t, strings.HasPrefix(s.does("help "+c.Name()), c.Long))
		require.True(t, strings.HasPrefix(s.does(c.Name()+" -h"), c.Long))
	}
	require.Regexp(t, `^fairlimit version \S+ go\S+ \w+/\w+\n$`, s.does("-version"))
}

func TestAFlagMayBeginWithOneDash(t *testing.T) {
	s := newShell(t)
	for _, line := range []string{"look a -json", "look a --json", "look --json=true a"} {
		require.Contains(t, s.does(line), `{"name":"a",`)
	}
	require.Equal(t, "-json\n", s.does("wait a -quota 1/1s -- echo -json"))
}
