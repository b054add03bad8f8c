package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAnEmptyPrefixIsOneToo(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	name := redistest.Name(t)
	for _, words := range [][]string{{"-prefix", "", "pause", name, "1h"}, {"pause", name, "1h", "-prefix="}} {
		require.NoError(t, s.rdb.Del(t.Context(), "{"+name+"}").Err())
		require.Zero(t, finish(t, process(s.env, words...)).status)
		require.EqualValues(t, 1, s.rdb.Exists(t.Context(), "{"+name+"}").Val())
	}
}

func TestAShortPauseLastsTwiceWithin(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Regexp(t, `  paused    for (20m|19m\d+s) more\n`, s.does("pause", "tax", "1s", "-within", "10m"))
	r := s.run("pause", "tax", "20000h")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.err, "invalid pause")
}

func TestResetAsksFirst(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Every(time.Hour), 3)
	require.NoError(t, q.Pause(t.Context(), 5*time.Hour))
	for _, answer := range []string{"", "\n", "n\n", "yo\n"} {
		cmd := s.command("reset", "tax")
		cmd.Stdin = strings.NewReader(answer)
		r := finish(t, cmd)
		require.Equal(t, 1, r.status)
		require.Equal(t, "fairlimit: nothing was reset\n", r.err)
		require.Regexp(t, `^tax\n  backlog   2 permits\n(  .*\n)+at 127.0.0.1:\d+\nfrees .*\nreset\? \[y/N\] $`, r.out)
		fits(t, r.out)
	}
	require.Equal(t, 2, s.queued(q))

	cmd := s.command("reset", "tax")
	cmd.Stdin = strings.NewReader("y\n")
	require.Zero(t, finish(t, cmd).status)
	require.Zero(t, s.queued(q))
}

func TestResetWithYesAsksNothing(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{tax}", "something else", 0).Err())
	out := s.does("reset", "tax", "-yes")
	require.Contains(t, out, "  unreadable reset deletes the queue")
	require.NotContains(t, out, "?")
	require.Contains(t, s.does("look", "tax"), "  idle  ")
}
