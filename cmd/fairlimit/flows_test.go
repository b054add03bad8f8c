package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestAFlowIsSteeredAndLookedAtAlone(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Equal(t, "tax\n  ceilings  no flow has one, nor a pause\n", s.does("quota", "tax", "-flow", "acme"))
	require.Equal(t, "tax\n  ceilings  acme: 0 of 2/1h stored\n", s.does("quota", "tax", "-flow", "acme", "2/1h"))
	require.Equal(t, "tax\n", s.does("ls", "-names"), "it has something stored")
	require.NotContains(t, s.does("quota", "tax"), "2/1h", "it is not that of the queue")
	require.Regexp(t, `^tax\n  ceilings  "b\\x1bc": no ceiling, paused for (1h|59m\d+s) more\n$`,
		s.does("pause", "tax", "1h", "-flow", "b\x1bc"))

	q := s.queue("tax", fairlimit.PerSecond(100))
	acme, err := q.Flow("acme", 1)
	require.NoError(t, err)
	require.NoError(t, acme.WaitN(t.Context(), 2))
	given, err := q.Flow("given}", 1, fairlimit.WithFlowQuota(fairlimit.Quota{Permits: 5, Per: time.Hour, Burst: 2}))
	require.NoError(t, err)
	require.NoError(t, given.Wait(t.Context()))
	out := s.does("look", "tax", "-flows")
	fits(t, out)
	require.Regexp(t, `\n  ceilings  acme: 2 of 2/1h stored, room in (1h|59m\d+s)\n`+
		`            "b\\x1bc": no ceiling, paused for \S+ more\n            given}: 1 of 5/1h 2/24m\n$`, out)
	require.Regexp(t, `"ceilings":\[\{"flow":"acme","quotas":\["2/1h"\],"quotas_stored":true,"used":2,`+
		`"next_ms":3\d+\S*,"paused_ms":0\},`, s.does("look", "tax", "-flows", "-json"))
	require.Equal(t, "tax\n", s.does("ls", "-names"), "a log is no queue")

	require.Equal(t, "tax\n  ceilings  acme: no ceiling\n", s.does("quota", "tax", "-flow", "acme", "-forget"))
	require.Equal(t, 1, s.run("quota", "tax", "-flow", "acme", "2/1h", "1/1s").status)
}
