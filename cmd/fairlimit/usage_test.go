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
var nowhere = []string{"FAIRLIMIT_REDIS=127.0.0.1:1"}

func TestWhatCannotBeUnderstoodIsToldWithTheUsage(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, c := range []struct {
		status int
		line   string // with ~ for a space in a word, and '' for an empty one
		says   string
	}{
		{2, "", "no command"},
		{2, "-redis 127.0.0.1:1", "no command"},
		{2, "lock", "no command lock"},
		{2, "help lock", "no command lock"},
		{2, "--nix ls", "unknown flag: --nix"},
		{2, "ls --nix", "unknown flag: --nix"},
		{2, "ls more", "ls: more is one word too many"},
		{2, "look", "look: NAME is missing"},
		{2, "look ''", "look: the name is empty"},
		{2, "pause a", "pause: DURATION is missing"},
		{2, "pause a 30", "pause: 30: the unit is missing, as in 30ms, 30s or 30m"},
		{2, "pause a -5s", "unknown shorthand flag"},
		{2, "pause -- a -5s", "pause: -5s: want more than 0"},
		{2, "resume a b", "resume: b is one word too many"},
		{2, "requeue", "requeue: NAME is missing"},
		{2, "quota a 20", `quota: "20" has no duration`},
		{2, "quota a 20/1s -forget", "quota: -forget goes without quotas"},
		{2, "completion csh", "want bash, zsh, fish or powershell"},
		{2, "-redis foo://x ls", "want redis://, rediss://"},
		{2, "-redis redis://x/y ls", `invalid database number: "y"`},
		{2, "-redis redis://x?y=z ls", "unexpected option: y"},
		{2, "-redis x:y ls", "address 1 is no host:port"},
		{2, "-redis redis+sentinel://x ls", "the master's name is missing"},
		{2, "-redis redis+cluster://x/1 ls", "no database but 0"},
		{2, "-redis redis://x?skip_verify ls", "skip_verify is true or false"},
		{2, "serve tax", "serve: tax: want NAME=QUOTAS"},
		{2, "serve =1/1s", "want NAME=QUOTAS"},
		{2, "serve tax=", "serve: tax: no quota"},
		{2, "serve tax=1/1s tax=1/1s", "serve: tax: it is given twice"},
		{2, "serve tax=6/1m;~flow~3/1m", `serve: tax: unit "flow": it needs another name`},
		{2, "serve -most-waiting 0", "-most-waiting: want at least 1"},
		{1, "serve -token-file " + empty, "no token"},
		{1, "serve -token-file /nowhere", "/nowhere: no such file"},
		{3, "serve tax=1/1s", "Redis was looked for at 127.0.0.1:1"},
		{125, "wait -- true", "wait: NAME is missing"},
		{125, "wait a true", "wait: -- and a command are missing"},
		{125, "wait a --", "wait: -- and a command are missing"},
		{125, "wait a b -- true", "wait: b is one word too many\n"},
		{125, "wait a -quota 1 -- true", `"1" has no duration`},
		{125, "wait a -quota 1/1s -n 0 -- true", "fairlimit: "},
		{125, "wait a -timeout 0 -- true", "want more than 0"},
		{125, "wait a -guard -1s -- true", "it is negative"},
		{125, "wait a -amounts tokens=-1 -- true", "want <unit>=<number>"},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(c.line)
			for i, word := range words {
				words[i] = strings.NewReplacer("~", " ", "''", "").Replace(word)
			}
			r := finish(t, process(nowhere, words...))
			assert.Equal(t, c.status, r.status, r.err)
			assert.Empty(t, r.out)
			assert.Contains(t, r.err, "fairlimit: ")
			assert.Contains(t, r.err, c.says)
			if c.status == statusUsage {
				assert.Contains(t, r.err, "\nusage: fairlimit ")
			}
		})
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"version", "-version", "--version"} {
		r := finish(t, process(nowhere, line))
		require.Zero(t, r.status, line)
		require.Empty(t, r.err)
		require.Regexp(t, `^fairlimit \S+ go\S+ \w+/\w+\n$`, r.out)
	}
}

func TestHelpIsNoErrorAndFits(t *testing.T) {
	t.Parallel()
	lines := [][]string{{"help"}, {"-h"}, {"help", "help"}, {"look", "a", "-h"}}
	for _, c := range commands(new(connection)).Commands() {
		lines = append(lines, []string{"help", c.Name()}, []string{c.Name(), "-help"})
	}
	for _, line := range lines {
		r := finish(t, process(nowhere, line...))
		require.Zero(t, r.status, line)
		require.Empty(t, r.err)
		require.True(t, strings.HasPrefix(r.out, "usage: fairlimit "), r.out)
		fits(t, r.out)
	}
	require.Equal(t, finish(t, process(nil, "help", "wait")).out, finish(t, process(nil, "wait", "-h")).out)
}

func TestAFlagMayBeginWithOneDash(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, line := range []string{"ls -names", "ls --names", "-redis " + s.rdb.Options().Addr + " ls --names=true"} {
		require.Empty(t, s.does(strings.Fields(line)...))
	}
	require.Equal(t, "-names\n", s.does("wait", "a", "-quota", "1/1s", "--", "echo", "-names"))
}
