package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestLsListsQueuesInOrder(t *testing.T) {
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	s.backlog("\x1b[2J\n\u202e", fairlimit.PerHour(100), 1)
	require.NoError(t, s.queue("paused", fairlimit.Every(time.Hour)).Pause(t.Context(), 2*time.Hour))
	s.does("quota stored 10/1m; tokens 100/1m")
	require.Regexp(t, `^NAME +BACKLOG +DELAY +PAUSED +AVAILABLE
"\\x1b\[2J\\n\\u202e" +0 +0s +no +unknown
paused +0 +(2h|1h59m\d+s) +(2h|1h59m\d+s) +unknown
stored +0 +0s +no +10, tokens 100
tax +2 +(2h|1h59m\d+s) +no +unknown
$`, s.does("ls"))
}

// The prefix is a text, not a pattern; what is beside the queues is not one.
func TestLsTellsItsKeysFromOthers(t *testing.T) {
	s := newShell(t)
	s.backlog("ab", fairlimit.Every(time.Hour), 1)
	s.backlog("with{brace", fairlimit.Every(time.Hour), 1)
	for _, key := range []string{"{w}:value", "open{", "{open", "", "{}"} {
		s.put(key, "")
	}
	require.Regexp(t, `^NAME .*\nab .*\nwith{brace .*\n$`, s.does("ls"))
	s.prefix = strings.Replace(s.prefix, "T", "?", 1)
	require.Empty(t, s.ends(0, "ls", `no queues under the prefix \?est`))
	s.prefix = ""
	require.Empty(t, s.ends(0, "ls", `no queues under the prefix ""\n$`))
	s.prefix = `T[a-z]*\`
	s.backlog("odd", fairlimit.Every(time.Hour), 1)
	require.Regexp(t, `^NAME .*\nodd .*\n$`, s.does("ls"))
}

func TestLsListsTheOthersBesideAKeyThatIsNoQueue(t *testing.T) {
	s := newShell(t)
	s.backlog("b", fairlimit.Every(time.Hour), 1)
	s.put("{a}", "something else")
	require.NoError(t, s.rdb.RPush(t.Context(), s.prefix+"{c}", "something else").Err())
	require.Regexp(t, `(?m)^a +\? +\? +\? +\?\nb +0 +\S+ +no +unknown\nc +\? +\? +\? +\?$`, s.ends(1, "ls",
		"^fairlimit: keys that cannot be read: 2; reset deletes a queue, quota -forget its quota\n$"))
	s.ends(1, "look a", "not the head of a queue")
	require.Regexp(t, `^a\n  (idle|backlog   0)`, s.does("reset a -yes"))
}
