package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestAPauseThatIsLongerThanAskedForSaysSo(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	says := "a pause lasts at least 2s, and the longest counts\n"
	out := s.does("pause", "tax", "500ms")
	require.Regexp(t, `  paused    for (2|1\.\d+)s more, until `, out)
	require.Contains(t, out, "longer than 500ms: "+says)
	require.NotContains(t, s.does("pause", "tax", "1h"), says)
	require.Contains(t, s.does("pause", "tax", "5s"), "longer than 5s: "+says)
	r := s.run("pause", "tax", "20000h")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.err, "invalid pause")
}

func TestResumeAndRequeue(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	s.does("pause", "tax", "5h")
	require.Contains(t, s.does("resume", "tax"), "  paused    no\n")
	require.Equal(t, "tax\n  backlog   not known yet: whoever waits asks again within a second\n  paused    no\n"+
		"  quota     none is stored: those of the callers hold\n", s.does("requeue", "tax"))
	s.backlog("idle", fairlimit.Every(time.Hour), 1)
	require.Contains(t, s.does("requeue", "idle"), "  backlog   0\n", "nobody waits")
}

func TestResetAsksFirst(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	asked := func(answer string) result {
		cmd := s.command("reset", "tax")
		cmd.Stdin = strings.NewReader(answer)
		return finish(t, cmd)
	}
	for _, answer := range []string{"", "\n", "n\n", "yo\n"} {
		r := asked(answer)
		require.Equal(t, 1, r.status)
		require.Equal(t, "fairlimit: nothing was reset: give -yes to go without the question\n", r.err)
		require.Regexp(t, `^reset tax at 127.0.0.1:\d+\? The upstream may see more than the quota. \[y/N\]\n$`, r.out)
	}
	require.Contains(t, s.does("look", "tax"), "  backlog   2, ")
	require.Contains(t, asked("y\n").out, "  backlog   not known yet")
}

func TestQuotasAreStoredToldAndForgotten(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Regexp(t, `^tax\n(  .*\n)+  quota     20/1s\n  quota     100/2m burst 10\n`+
		`  unit      tokens 1000/1h 100/1m: backlog 0, available 100\n(  .*\n)*`+
		`only limiters made WithStoredQuota, serve, and wait without -quota obey them\n$`,
		s.does("quota", "tax", "20/1s", "100/2m", "burst", "10;", "tokens", "1000/1h", "100/1m"))
	stored := s.rdb.Get(t.Context(), s.prefix+"{tax}:quota").Val()
	require.Equal(t, "20/1s 100/2m burst 10; tokens 1000/1h 100/1m", stored)

	s.does("reset", "tax", "-yes")
	require.Contains(t, s.does("quota", "tax"), "  quota     20/1s\n", "stored quotas stay")
	require.Contains(t, s.does("quota", "tax", "-forget"), "  quota     none is stored", "it shows what is now")
	require.Zero(t, s.rdb.Exists(t.Context(), s.prefix+"{tax}:quota").Val())
}

func TestQuotasOfUnitsThatAreNotStoredAreAskedFor(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.queue("llm", fairlimit.PerHour(60), fairlimit.WithUnit("tokens", fairlimit.PerHour(9)))
	require.NoError(t, q.Wait(t.Context()))
	r := s.run("quota", "llm", "5/1s")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.err, "the queue counts calls and tokens, this limiter counts calls only: "+
		"store the quotas of its units, as in '5/1s; tokens …'\n")
	s.does("quota", "llm", "5/1s; tokens 9/1h")
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
	r := s.run("look", "tax")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.err, "stored quotas")
	require.Contains(t, r.err, "fairlimit quota")
	require.Equal(t, 125, s.run("wait", "tax", "--", "true").status)
	r = s.run("ls")
	require.Equal(t, 1, r.status)
	require.Regexp(t, `(?m)^tax +\? +\? +\? +\?$`, r.out, "all its callers get an error")
	r = s.run("pause", "tax", "1h")
	require.Equal(t, 1, r.status)
	require.Regexp(t, `paused +for (1h|59m)`, r.out, "it is paused all the same")
	require.Contains(t, s.does("quota", "tax", "-forget"), "  quota     none is stored")
}
