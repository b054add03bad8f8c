package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestWatchPrintsPlainLinesToAPipe(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("the tax", fairlimit.Every(time.Hour), 2)
	cmd := s.command("look", "the tax", "-watch")
	lines, _ := start(t, cmd)
	const line = `^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ "the tax" backlog=%d delay=(2h|1h59m\d+s) available=0 paused=0s$`
	assert.Regexp(t, strings.Replace(line, "%d", "1", 1), lines())
	s.backlog("the tax", fairlimit.Every(2*time.Hour), 1)
	assert.Regexp(t, ` paused=0s quotas=different$`, lines())
	require.NoError(t, q.Reset(t.Context()))
	after := lines()
	for strings.HasSuffix(after, " quotas=different") { // it is from before
		after = lines()
	}
	assert.Regexp(t, `Z "the tax" backlog=0 delay=0s available=1 paused=0s$`, after)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), "it is how a watch ends")
}

func TestWatchOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	cmd := process([]string{"FAIRLIMIT_REDIS=" + server.Addr()}, "look", "tax", "-watch")
	lines, problems := start(t, cmd)
	require.Contains(t, lines(), " tax backlog=0 ")
	server.Kill()
	require.Regexp(t, "^fairlimit: .", problems())
	server.Restart()
	for range 2 { // one of them may be from before
		require.Contains(t, lines(), " tax backlog=0 ")
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait())
}
