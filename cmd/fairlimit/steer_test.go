package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestAPauseThatIsLongerThanAskedForSaysSo(t *testing.T) {
	s := newShell(t)
	says := "a pause lasts at least 2s, and the longest counts\n"
	require.Regexp(t, `  paused    for (2|1\.\d+)s more, until (.*\n)+longer than 500ms: `+says, s.does("pause tax 500ms"))
	require.NotContains(t, s.does("pause tax 1h"), says)
	require.Contains(t, s.does("pause tax 5s"), "longer than 5s: "+says)
}

func TestResumeAndRequeue(t *testing.T) {
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	s.does("pause tax 5h")
	require.Contains(t, s.does("resume tax"), "  paused    no\n")
	require.Equal(t, "tax\n  backlog   not known yet: whoever waits asks again within a second\n  paused    no\n"+
		"  quota     none is stored: those of the callers hold\n", s.does("requeue tax"))
	s.backlog("idle", fairlimit.Every(time.Hour), 1)
	require.Contains(t, s.does("requeue idle"), "  backlog   0\n", "nobody waits")
}

func TestResetAsksFirst(t *testing.T) {
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 3)
	for _, answer := range []string{"", "\n", "n\n", "yo\n"} {
		status, out, problems := s.run("reset tax", answer)
		require.Equal(t, 1, status)
		require.Equal(t, "fairlimit: nothing was reset: give -yes to go without the question\n", problems)
		require.Regexp(t, `^reset tax at 127.0.0.1:\d+\? The upstream may see more than the quota. \[y/N\]\n$`, out)
	}
	require.Contains(t, s.does("look tax"), "  backlog   2, ")
	_, out, _ := s.run("reset tax", "y\n")
	require.Contains(t, out, "  backlog   not known yet")
}

func TestQuotasAreStoredToldAndForgotten(t *testing.T) {
	s := newShell(t)
	require.Regexp(t, `^tax\n(  .*\n)+  quota     20/1s\n  quota     100/2m burst 10\n`+
		`  unit      tokens 1000/1h 100/1m: backlog 0, available 100\n(  .*\n)*`+
		`only limiters made WithStoredQuota, serve, and wait without -quota obey them\n$`,
		s.does("quota tax 20/1s 100/2m burst 10; tokens 1000/1h 100/1m"))
	s.does("reset tax -yes")
	require.Contains(t, s.does("quota tax"), "  quota     20/1s\n", "stored quotas stay")
	require.Contains(t, s.does("quota tax -forget"), "  quota     none is stored", "it shows what is now")
	require.Zero(t, s.rdb.Exists(t.Context(), s.prefix+"{tax}:quota").Val())
}

func TestQuotasOfUnitsThatAreNotStoredAreAskedFor(t *testing.T) {
	s := newShell(t)
	q := s.queue("llm", fairlimit.PerHour(60), fairlimit.WithUnit("tokens", fairlimit.PerHour(9)))
	require.NoError(t, q.Wait(t.Context()))
	s.ends(1, "quota llm 5/1s", "the queue counts calls and tokens, this limiter counts calls only: "+
		"store the quotas of its units, as in '5/1s; tokens …'\n")
	s.does("quota llm 5/1s; tokens 9/1h")
}

func TestStoredTextThatIsNoQuotaIsToldAndForgotten(t *testing.T) {
	s := newShell(t)
	s.put("{tax}:quota", "plenty")
	s.ends(1, "look tax", "stored quotas.*fairlimit quota")
	s.ends(125, "wait tax -- true", `"plenty" is no number`)
	require.Regexp(t, `(?m)^tax +\? +\? +\? +\?$`, s.ends(1, "ls", "cannot be read: 1"), "all its callers get an error")
	require.Regexp(t, `paused +for (1h|59m)`, s.ends(1, "pause tax 1h", "stored quotas"), "it is paused all the same")
	require.Contains(t, s.does("quota tax -forget"), "  quota     none is stored")
}
