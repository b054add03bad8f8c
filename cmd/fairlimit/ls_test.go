package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestLsListsQueuesInOrder(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	s.backlog("\x1b[2J\n\u202e", fairlimit.PerHour(100), 1)
	require.NoError(t, s.queue("paused", fairlimit.Every(time.Hour)).Pause(t.Context(), 2*time.Hour))
	s.does("quota", "stored", "10/1m; tokens 100/1m")
	require.Regexp(t, `^NAME +BACKLOG +DELAY +PAUSED +AVAILABLE
"\\x1b\[2J\\n\\u202e" +0 +0s +no +unknown
paused +0 +(2h|1h59m\d+s) +(2h|1h59m\d+s) +unknown
stored +0 +0s +no +10, tokens 100
tax +2 +(2h|1h59m\d+s) +no +unknown
$`, s.does("ls"))
}

func TestLsOfNothingSaysSo(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, env: []string{"FAIRLIMIT_REDIS=" + redistest.StartServer(t).Addr()}}
	require.Equal(t, result{err: "fairlimit: no queues under the prefix fairlimit:\n"}, s.run("ls"))
	require.Equal(t, result{err: "fairlimit: no queues under the prefix \"\"\n"}, s.run("ls", "-prefix", ""))
}

// The prefix is a text, not a pattern; what is beside the queues is not one.
func TestLsTellsItsKeysFromOthers(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	names := func() (names []string) {
		for line := range strings.Lines(s.run("ls").out) {
			names = append(names, strings.Fields(line)[0])
		}
		return names
	}
	for _, name := range []string{"ab", "with{brace"} {
		s.backlog(name, fairlimit.Every(time.Hour), 1)
	}
	for _, key := range []string{"{w}:value", "open{", "{open", "", "{}"} {
		require.NoError(t, s.rdb.Set(t.Context(), s.prefix+key, "", 0).Err())
	}
	require.Equal(t, []string{"NAME", "ab", "with{brace"}, names())
	s.prefix = strings.Replace(s.prefix, "T", "?", 1)
	require.Empty(t, names())
	s.prefix = s.prefix[:1] + `[a-z]*\`
	s.backlog("odd", fairlimit.Every(time.Hour), 1)
	require.Equal(t, []string{"NAME", "odd"}, names())
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
		"reset deletes a queue, quota -forget its quota\n", r.err)
	require.Equal(t, 1, s.run("look", "a").status)
	require.Regexp(t, `^a\n  (idle|backlog   0)`, s.does("reset", "a", "-yes"))
}
