package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestLsListsQueuesInOrder(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	s.backlog("idle soon", fairlimit.PerHour(100), 1)
	paused := s.queue("paused", fairlimit.Every(time.Hour))
	require.NoError(t, paused.Pause(t.Context(), 2*time.Hour))

	lines := strings.Split(strings.TrimSpace(s.does("ls")), "\n")
	require.Len(t, lines, 4)
	assert.Equal(t, []string{"NAME", "BACKLOG", "DELAY", "PAUSED", "AVAILABLE"}, strings.Fields(lines[0]))
	assert.Regexp(t, `^"idle soon" +0 +0s +no +unknown$`, lines[1])
	assert.Regexp(t, `^paused +0 +(2h|1h59m\d+s) +(2h|1h59m\d+s) +unknown$`, lines[2])
	assert.Regexp(t, `^tax +2 +(2h|1h59m\d+s) +no +unknown$`, lines[3])
	assert.Equal(t, "\"idle soon\"\npaused\ntax\n", s.does("ls", "-names"))
}

func TestLsOfNothingSaysSo(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Equal(t, result{err: "fairlimit: no queues under the prefix " + s.prefix + "\n"}, s.run("ls"))
	require.Empty(t, s.does("ls", "-names"), "only names")
	s = &shell{t: t, env: []string{"FAIRLIMIT_REDIS=" + redistest.StartServer(t).Addr()}}
	require.Equal(t, result{err: "fairlimit: no queues under the prefix fairlimit:\n"}, s.run("ls"))
	require.Equal(t, result{err: "fairlimit: no queues under the prefix \"\"\n"}, s.run("ls", "-prefix", ""))
}

// The prefix is a text, not a pattern; what is beside the queues is not one.
func TestLsTellsItsKeysFromOthers(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, name := range []string{"ab", "with{brace"} {
		s.backlog(name, fairlimit.Every(time.Hour), 1)
	}
	for _, key := range []string{"{w}:value", "open{", "{open", "", "{}"} {
		require.NoError(t, s.rdb.Set(t.Context(), s.prefix+key, "", 0).Err())
	}
	require.Equal(t, "ab\nwith{brace\n", s.does("ls", "-names"))
	s.prefix = strings.Replace(s.prefix, "T", "?", 1)
	require.Empty(t, s.does("ls", "-names"))
	s.prefix = s.prefix[:1] + `[a-z]*\`
	s.backlog("odd prefix", fairlimit.Every(time.Hour), 1)
	require.Equal(t, "\"odd prefix\"\n", s.does("ls", "-names"))
}

func TestLsListsTheOthersBesideAKeyThatIsNoQueue(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("b", fairlimit.Every(time.Hour), 1)
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{a}", "something else", 0).Err())
	require.NoError(t, s.rdb.RPush(t.Context(), s.prefix+"{c}", "something else").Err())
	r := s.run("ls")
	require.Equal(t, 1, r.status)
	require.Regexp(t, `(?m)^a +\? +\? +\? +\?\nb +0 +\S+ +no +unknown\nc +\? +\? +\? +\?$`, r.out)
	require.Equal(t, "fairlimit: keys that cannot be read: 2; "+
		"reset deletes a queue, quota -forget a stored quota\n", r.err)
}

func TestNamesDoNotReachTheTerminalRaw(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("\x1b[2J\n\u202e", fairlimit.Every(time.Hour), 1)
	out := s.does("ls")
	require.Contains(t, out, `"\x1b[2J\n\u202e" `)
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, s.does("look", "\x1b[2J\n\u202e"), "\x1b")
}
