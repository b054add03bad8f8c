package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestLookTellsHowAQueueStands(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Quota{Permits: 2, Per: time.Hour}, 5)
	const last = `(2h|1h59m\d+s)`
	out := s.does("look", "tax")
	fits(t, out)
	require.Regexp(t, `^tax\n  backlog   3 permits, the last in `+last+`\n  next slot no sooner than in `+last+
		`\n  paused    no\n  quotas    none is stored: those of the callers hold\n$`, out)

	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{tax}:quota", "2/1h 10/1d burst 2", 0).Err())
	require.Regexp(t, `^tax\n  backlog   3 permits, the last in `+last+`\n  next slot in \d.*\n`+
		`  available 0 permits at once\n  paused    no\n  quotas    2/1h\n            10/24h burst 2\n$`,
		s.does("look", "tax"))

	require.NoError(t, q.Pause(t.Context(), 3*time.Hour))
	require.Regexp(t, `\n  paused    for (3h|2h59m\d+s) more\n`, s.does("look", "tax"))
}

func TestLookTellsTheFlows(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Every(time.Hour), 1)
	require.NotContains(t, s.does("look", "tax"), "flow")
	f, err := q.Flow("reports", 3)
	require.NoError(t, err)
	_, err = f.ReserveN(t.Context(), 1)
	require.NoError(t, err)
	require.Regexp(t, `\n  flows     \S+: weight 3, \d ahead\n  quotas`, s.does("look", "tax"))
}

func TestLookAtAQueueThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Equal(t, "nix\n  idle      Redis knows of nobody who waits, and of nothing that still counts\n"+
		"  paused    no\n  quotas    none is stored: those of the callers hold\n", s.does("look", "nix"))
	v := s.looked("nix")
	require.True(t, v.Idle)
	require.Nil(t, v.Available)
	require.Empty(t, s.does("ls", "-names"), "looking leaves nothing behind")
}

func (s *shell) looked(name string, flags ...string) (q picture.Queue) {
	s.t.Helper()
	text := s.does(append([]string{"look", "-json", name}, flags...)...)
	read := json.NewDecoder(strings.NewReader(text))
	read.DisallowUnknownFields()
	require.NoError(s.t, read.Decode(&q), text)
	return q
}

func TestUnitsAreShownEverywhere(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.queue("llm", fairlimit.PerHour(60), fairlimit.WithGuard(0),
		fairlimit.WithUnit("tokens", fairlimit.Quota{Permits: 1000, Per: time.Hour}))
	for range 2 {
		_, err := q.ReserveAmounts(t.Context(), fairlimit.Amounts{"tokens": 350})
		require.NoError(t, err)
	}
	require.Contains(t, s.does("look", "llm"), "\n  units     tokens : backlog 0, available unknown\n")
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{llm}:quota", "60/1h; tokens 1000/1h", 0).Err())
	require.Contains(t, s.does("look", "llm"), "\n  units     tokens 1000/1h: backlog 0, available 300\n")
	require.Regexp(t, `(?m)^llm .* no +58, tokens 300$`, s.does("ls"))
	unit := s.looked("llm").Units[0]
	require.Equal(t, int64(300), *unit.Available)
	require.Equal(t, int64(700), unit.Windows[0].Held)
	lines, _ := start(t, s.command("look", "llm", "-watch"))
	require.Contains(t, lines(), " available=58 available.tokens=300 paused=0s")
}

func TestLookAtAKeyThatIsNoQueue(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{a}", "something else", 0).Err())
	r := s.run("look", "a")
	require.Equal(t, 1, r.status)
	require.Equal(t, 1, strings.Count(r.err, "\n"), "a failure is no error of usage")
}

func TestRedisThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"ls", "look a", "look a -watch", "pause a 1s", "reset a -yes", "quota a", "quota a 1/1s", "quota a -forget",
		"check", "wait a -quota 1/1s -- true",
		"ls -redis 127.0.0.1:1,127.0.0.1:2", "look a -redis 127.0.0.1:1,127.0.0.1:2",
		"wait a -quota 1/1s -redis 127.0.0.1:1,127.0.0.1:2 -- true",
		"ls -redis redis+sentinel://127.0.0.1:1/main", "look a -redis redis+sentinel://127.0.0.1:1/main",
		"ls -redis unix:///nowhere", "ls -redis redis://u:secret@127.0.0.1:1",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			status, words := statusUnreachable, strings.Fields(line)
			if words[0] == "wait" {
				status = waitUnreachable
			}
			r := finish(t, process(nowhere, words...))
			assert.Equal(t, status, r.status, r.err)
			assert.Regexp(t, `^fairlimit: .*\nRedis was looked for at \S+: `+
				`-redis or \$FAIRLIMIT_REDIS says where it is\n$`, r.err)
			assert.NotContains(t, r.err, "secret")
		})
	}
}

func TestWatchPrintsPlainLinesToAPipe(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("the tax", fairlimit.Every(time.Hour), 2)
	cmd := s.command("look", "the tax", "-watch")
	lines, _ := start(t, cmd)
	const line = `^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ "the tax" backlog=%d delay=(1h|59m\d+s) available=unknown paused=0s$`
	assert.Regexp(t, strings.Replace(line, "%d", "1", 1), lines())
	require.NoError(t, q.Reset(t.Context()))
	after := lines()
	for strings.Contains(after, " backlog=1") { // it is from before
		after = lines()
	}
	assert.Regexp(t, `Z "the tax" backlog=0 delay=0s available=(all|unknown) paused=0s$`, after)
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
