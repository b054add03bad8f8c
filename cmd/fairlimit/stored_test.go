package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuotasAreStoredToldAndForgotten(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Equal(t, "tax\n  idle      nobody waits, and nothing that was granted counts any more\n  paused    no\n"+
		"  quotas    20/1s\n            100/2m burst 10\n            stored\n"+
		"  units     tokens 1000/1h 100/1m: used 0, backlog 0, available 100\n"+
		"only limiters made WithStoredQuota, serve, and wait without -quota obey them\n",
		s.does("quota", "tax", "20/1s", "100/2m", "burst", "10;", "tokens", "1000/1h", "100/1m"))
	require.Equal(t, "20/1s 100/2m burst 10; tokens 1000/1h 100/1m", s.rdb.Get(t.Context(), s.prefix+"{tax}:quota").Val())
	require.Contains(t, s.does("look", "tax"), "  quotas    20/1s\n            100/2m burst 10\n            stored\n")
	require.Regexp(t, `(?m)^tax +0 +0s +no +all, tokens 100$`, s.does("ls"), "a stored quota is listed, be the queue idle")

	s.does("reset", "tax", "-yes")
	require.Contains(t, s.does("quota", "tax"), "stored\n", "stored quotas stay")
	require.Regexp(t, `  quotas    20/1s\n +100/2m burst 10\n +stored\n.*\nno quota is stored any more\n$`,
		s.does("quota", "tax", "-forget"), "it shows what goes")
	require.NotContains(t, s.does("quota", "tax"), "  stored\n")
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
	require.Equal(t, "tax\n  unreadable what is stored is no quota\nno quota is stored any more\n",
		s.does("quota", "tax", "-forget"))
	require.Contains(t, s.does("look", "tax"), "unknown, none is stored")
}
