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

func TestAPauseThatIsLongerThanAskedForSaysSo(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	says := "a pause lasts at least 2s, and the longest counts\n"
	out := s.does("pause", "tax", "500ms")
	require.Regexp(t, `  paused    for (2|1\.\d+)s more\n`, out)
	require.Contains(t, out, "longer than 500ms: "+says)
	require.NotContains(t, s.does("pause", "tax", "1h"), says)
	require.Contains(t, s.does("pause", "tax", "5s"), "longer than 5s: "+says)
	r := s.run("pause", "tax", "20000h")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.err, "invalid pause")
}

func TestAPauseOfAMisspeltNameSaysSo(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	hint := "is the name spelt right?"
	require.Contains(t, s.does("pause", "tacks", "1h"), hint)
	require.NotContains(t, s.does("look", "tax"), hint, "a queue may be idle")
	s.backlog("tax", fairlimit.Every(time.Hour), 1)
	require.NotContains(t, s.does("pause", "tax", "1h"), hint)
}

func TestResumeAndRequeue(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	s.does("pause", "tax", "5h")
	require.Contains(t, s.does("resume", "tax"), "  paused    no\n")
	require.Regexp(t, `  backlog   0 permits\n(.*\n)+  notes     requeued \ds ago`, s.does("requeue", "tax"))
}

func TestResetAsksFirst(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Every(time.Hour), 3)
	require.NoError(t, q.Pause(t.Context(), 5*time.Hour))
	for answer, end := range map[string]string{"": "\n", "\n": "", "n\n": "", "yo\n": ""} {
		cmd := s.command("reset", "tax")
		cmd.Stdin = strings.NewReader(answer)
		r := finish(t, cmd)
		require.Equal(t, 1, r.status)
		require.Equal(t, "fairlimit: nothing was reset; -yes does not ask\n", r.err)
		require.Regexp(t, `^tax\n  backlog   2 permits, .*\n(  .*\n)+at 127.0.0.1:\d+\nfrees .*\nreset\? \[y/N\] `+end+`$`, r.out)
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
	require.Regexp(t, `  idle  |  backlog   0 permits`, s.does("look", "tax"))
}

func TestQuotasAreStoredToldAndForgotten(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Regexp(t, `^tax\n(  .*\n)+  paused    no\n`+
		`  quotas    20/1s\n            100/2m burst 10\n`+
		`  units     tokens 1000/1h 100/1m: backlog 0, available 100\n(  .*\n)*`+
		`only limiters made WithStoredQuota, serve, and wait without -quota obey them\n$`,
		s.does("quota", "tax", "20/1s", "100/2m", "burst", "10;", "tokens", "1000/1h", "100/1m"))
	require.Equal(t, "20/1s 100/2m burst 10; tokens 1000/1h 100/1m", s.rdb.Get(t.Context(), s.prefix+"{tax}:quota").Val())
	require.Contains(t, s.does("look", "tax"), "  quotas    20/1s\n            100/2m burst 10\n")
	require.Regexp(t, `(?m)^tax +0 +0s +no +(all|10), tokens 100$`, s.does("ls"), "a stored quota is listed, be the queue idle")

	s.does("reset", "tax", "-yes")
	require.Contains(t, s.does("quota", "tax"), "  quotas    20/1s\n", "stored quotas stay")
	require.Regexp(t, `  quotas    20/1s\n +100/2m burst 10\n(.*\n)+no quota is stored any more\n$`,
		s.does("quota", "tax", "-forget"), "it shows what goes")
	require.Contains(t, s.does("quota", "tax"), "none is stored")
}

func TestWaitGoesByTheStoredQuota(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.does("quota", "tax", "2/1h; tokens 5/1h")
	require.Equal(t, "hello\n", s.does("wait", "tax", "-amounts", "tokens=4", "--", "echo", "hello"))
	require.Equal(t, 124, s.run("wait", "tax", "-amounts", "tokens=2", "-timeout", "1m", "--", "true").status)
	require.Zero(t, s.run("wait", "tax", "--", "true").status)
	require.Equal(t, 124, s.run("wait", "tax", "-timeout", "1m", "--", "true").status)
	require.Equal(t, 125, s.run("wait", "tax", "-n", "3", "--", "true").status)
}

func TestStoredTextThatIsNoQuotaIsToldAndForgotten(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{tax}:quota", "plenty", 0).Err())
	for _, command := range []string{"look", "quota"} {
		r := s.run(command, "tax")
		require.Equal(t, 1, r.status)
		require.Contains(t, r.err, "stored quotas")
		require.Contains(t, r.err, "fairlimit quota")
	}
	require.Equal(t, 125, s.run("wait", "tax", "--", "true").status)
	r := s.run("ls")
	require.Equal(t, 1, r.status)
	require.Regexp(t, `(?m)^tax +\? +\? +\? +\?$`, r.out, "all its callers get an error")
	require.Contains(t, r.err, "quota -forget")
	r = s.run("pause", "tax", "1h")
	require.Equal(t, 1, r.status)
	require.Regexp(t, `paused +for (1h|59m)`, r.out, "it is paused all the same")
	require.Contains(t, r.err, "stored quotas")
	require.Regexp(t, `(?s)^tax\n.*  unreadable what is stored is no quota\nno quota is stored any more\n$`,
		s.does("quota", "tax", "-forget"))
	require.Contains(t, s.does("look", "tax"), "quotas    none is stored")
}
