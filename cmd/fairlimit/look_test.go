package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

const moment = `, at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d`

func TestLookTellsHowAQueueStands(t *testing.T) {
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Quota{Permits: 2, Per: time.Hour}, 5)
	const last = `in (2h|1h59m\d+s)` + moment
	require.Regexp(t, `^tax\n  backlog   3, the last `+last+`\n  next slot no sooner than `+last+
		`: no stored quota says more\n  paused    no\n`+
		`  quota     none is stored: those of the callers hold\n$`, s.does("look tax"))

	s.put("{tax}:quota", "2/1h 10/1d burst 2")
	require.Regexp(t, `^tax\n  backlog   3, the last `+last+`\n  next slot in \d.*`+moment+`\n`+
		`  available 0 at once\n  paused    no\n  quota     2/1h\n  quota     10/24h burst 2\n$`,
		s.does("look tax"))

	require.NoError(t, q.Pause(t.Context(), 3*time.Hour))
	require.Regexp(t, `\n  paused    for (3h|2h59m\d+s) more, until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\n`,
		s.does("look tax"))
}

func TestLookTellsWhatIsUnusual(t *testing.T) {
	s := newShell(t)
	q := s.backlog("tax", fairlimit.PerHour(3), 5)
	require.NotContains(t, s.does("look tax"), "note")

	s.does("quota tax 2/1h")
	require.Eventually(t, func() bool {
		return strings.Contains(s.does("look tax"), "\n  note      requeued 1s ago: whoever waited asked again")
	}, 10*time.Second, 50*time.Millisecond)
	require.NotContains(t, s.does("look tax"), "permits go within", "what went by the quota of before")
	for range 3 {
		_, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	require.Contains(t, s.does("look tax"),
		"\n  note      3 permits go within 1h, the quota allows 2: a limiter goes by another quota")

	require.NoError(t, s.rdb.Del(t.Context(), s.prefix+"{tax}:calls").Err())
	require.Contains(t, s.does("look tax"), "\n  note      the log of calls is missing: Redis has lost it")

	require.NoError(t, q.Reset(t.Context()))
	s.does("wait tax -- true")
	require.NoError(t, s.rdb.Del(t.Context(), s.prefix+"{tax}").Err())
	require.Contains(t, s.does("look tax"), "\n  note      the head is missing: Redis has lost it")

	require.NoError(t, q.Reset(t.Context()))
	require.NotContains(t, s.does("look tax"), "permits go within")
	require.NotContains(t, s.does("look tax"), "missing")
	require.Contains(t, s.does("requeue tacks"), "is the name spelt right?")
	require.Contains(t, s.does("pause tacks 1h"), "is the name spelt right?")
	require.NotContains(t, s.does("look nix"), "is the name spelt right?", "a queue may be idle")
}

// Thinning moves permits to later cells.
func TestLookTakesAThinnedLogForNothingUnusual(t *testing.T) {
	s := newShell(t)
	s.put("{long}:quota", "1000/1m burst 1")
	s.backlog("long", fairlimit.Quota{Permits: 1000, Per: time.Minute, Burst: 1}, 1500)
	require.NotContains(t, s.does("look long"), "note")
}

func TestLookTellsFlowsAndUnits(t *testing.T) {
	s := newShell(t)
	q := s.queue("llm", fairlimit.PerHour(60), fairlimit.WithUnit("tokens", fairlimit.PerHour(1000)))
	f, err := q.Flow("reports", 3)
	require.NoError(t, err)
	for range 2 {
		_, err := f.ReserveAmounts(t.Context(), fairlimit.Amounts{"tokens": 350})
		require.NoError(t, err)
	}
	out := s.does("look llm")
	require.Regexp(t, `\n  flow      reports: weight 3, \d ahead\n  quota`, out)
	require.Contains(t, out, "\n  unit      tokens : backlog 0, available unknown\n")
	s.put("{llm}:quota", "60/1h; tokens 1000/1h")
	require.Contains(t, s.does("look llm"), "\n  unit      tokens 1000/1h: backlog 0, available 300\n")
	require.Regexp(t, `(?m)^llm .* no +58, tokens 300$`, s.does("ls"))
	require.Contains(t, s.does("look -json llm"), `{"unit":"tokens","quotas":["1000/1h"],"available":300,`)
	require.NoError(t, s.rdb.Del(t.Context(), s.prefix+"{llm}:tokens").Err())
	require.Contains(t, s.does("look llm"), "\n  note      the log of tokens is missing: Redis has lost it")
}

func TestLookAtAQueueThatIsIdle(t *testing.T) {
	s := newShell(t)
	const rest = "\n  paused    no\n  quota     none is stored: those of the callers hold\n"
	require.Equal(t, "nix\n  idle      Redis knows of nobody who waits, and of nothing that still counts"+rest,
		s.does("look nix"))
	require.Regexp(t, `^{"name":"nix",.*"idle":true,.*"available":null,`, s.does("look -json nix"))
	require.Empty(t, s.rdb.Keys(t.Context(), s.prefix+"*").Val(), "looking leaves nothing behind")
	s.backlog("tax", fairlimit.Every(time.Hour), 1)
	require.Equal(t, "tax\n  backlog   0"+rest, s.does("look tax"), "a slot that is free goes without saying")
}
