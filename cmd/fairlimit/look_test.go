package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
)

const at = `, at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d`

func TestLookTellsHowAQueueStands(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Quota{Permits: 2, Per: time.Hour}, 5)
	const last = `in (2h|1h59m\d+s)` + at
	require.Regexp(t, `^tax\n  backlog   3, the last `+last+`\n  next slot no sooner than `+last+
		`: no stored quota says more\n  paused    no\n`+
		`  quota     none is stored: those of the callers hold\n$`, s.does("look", "tax"))

	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{tax}:quota", "2/1h 10/1d burst 2", 0).Err())
	require.Regexp(t, `^tax\n  backlog   3, the last `+last+`\n  next slot in \d.*`+at+`\n`+
		`  available 0 at once\n  paused    no\n  quota     2/1h\n  quota     10/24h burst 2\n$`,
		s.does("look", "tax"))

	require.NoError(t, q.Pause(t.Context(), 3*time.Hour))
	require.Regexp(t, `\n  paused    for (3h|2h59m\d+s) more, until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\n`,
		s.does("look", "tax"))
}

func TestLookSaysNothingOfASlotThatIsFree(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("tax", fairlimit.Every(time.Hour), 1)
	require.Equal(t, "tax\n  backlog   0\n  paused    no\n"+
		"  quota     none is stored: those of the callers hold\n", s.does("look", "tax"))
}

func TestLookTellsWhatIsUnusual(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.PerHour(3), 5)
	require.NotContains(t, s.does("look", "tax"), "note")

	s.does("quota", "tax", "2/1h")
	require.Eventually(t, func() bool {
		return strings.Contains(s.does("look", "tax"), "\n  note      requeued 1s ago: whoever waited asked again")
	}, 10*time.Second, 50*time.Millisecond)
	require.NotContains(t, s.does("look", "tax"), "permits go within", "what went by the quota of before")
	for range 3 {
		_, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	require.Contains(t, s.does("look", "tax"),
		"\n  note      3 permits go within 1h, the quota allows 2: a limiter goes by another quota")

	require.NoError(t, s.rdb.Del(t.Context(), s.prefix+"{tax}:calls").Err())
	require.Contains(t, s.does("look", "tax"), "\n  note      the log of calls is missing: Redis has lost it")

	require.NoError(t, q.Reset(t.Context()))
	s.does("wait", "tax", "--", "true")
	require.NoError(t, s.rdb.Del(t.Context(), s.prefix+"{tax}").Err())
	require.Contains(t, s.does("look", "tax"), "\n  note      the head is missing: Redis has lost it")

	require.NoError(t, q.Reset(t.Context()))
	require.NotContains(t, s.does("look", "tax"), "permits go within")
	require.NotContains(t, s.does("look", "tax"), "missing")
	require.Contains(t, s.does("requeue", "tacks"), "is the name spelt right?")
	require.Contains(t, s.does("pause", "tacks", "1h"), "is the name spelt right?")
	require.NotContains(t, s.does("look", "nix"), "is the name spelt right?", "a queue may be idle")
}

func TestLookTellsFlowsAndUnits(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.queue("llm", fairlimit.PerHour(60), fairlimit.WithUnit("tokens", fairlimit.PerHour(1000)))
	f, err := q.Flow("reports", 3)
	require.NoError(t, err)
	for range 2 {
		_, err := f.ReserveAmounts(t.Context(), fairlimit.Amounts{"tokens": 350})
		require.NoError(t, err)
	}
	out := s.does("look", "llm")
	require.Regexp(t, `\n  flow      reports: weight 3, \d ahead\n  quota`, out)
	require.Contains(t, out, "\n  unit      tokens : backlog 0, available unknown\n")
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{llm}:quota", "60/1h; tokens 1000/1h", 0).Err())
	require.Contains(t, s.does("look", "llm"), "\n  unit      tokens 1000/1h: backlog 0, available 300\n")
	require.Regexp(t, `(?m)^llm .* no +58, tokens 300$`, s.does("ls"))
	require.Equal(t, 300, *s.looked("llm").Units[0].Available)
	require.NoError(t, s.rdb.Del(t.Context(), s.prefix+"{llm}:tokens").Err())
	require.Contains(t, s.does("look", "llm"), "\n  note      the log of tokens is missing: Redis has lost it")
}

func TestLookAtAQueueThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Equal(t, "nix\n  idle      Redis knows of nobody who waits, and of nothing that still counts\n"+
		"  paused    no\n  quota     none is stored: those of the callers hold\n", s.does("look", "nix"))
	q := s.looked("nix")
	require.True(t, q.Idle)
	require.Nil(t, q.Available)
	require.Empty(t, s.rdb.Keys(t.Context(), s.prefix+"*").Val(), "looking leaves nothing behind")
}

// looked is what look prints with -json.
func (s *shell) looked(name string) (q picture.Queue) {
	s.t.Helper()
	text := s.does("look", "-json", name)
	read := json.NewDecoder(strings.NewReader(text))
	read.DisallowUnknownFields()
	require.NoError(s.t, read.Decode(&q), text)
	return q
}

func TestRedisThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"ls", "look a", "pause a 1s", "reset a -yes", "quota a", "quota a 1/1s", "quota a -forget", "requeue a",
		"check", "serve a=1/1s", "wait a -quota 1/1s -- true",
		"look a -redis redis+cluster://127.0.0.1:1?addr=127.0.0.1:2", "ls -redis unix:///nowhere",
		"ls -redis redis+sentinel://127.0.0.1:1?master_name=main", "ls -redis redis://u:secret@127.0.0.1:1",
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
