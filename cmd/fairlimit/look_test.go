package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestLookTellsHowAQueueStands(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Quota{Permits: 2, Per: time.Hour}, 5)
	out := s.does("look", "tax")
	fits(t, out)
	require.Regexp(t, `^tax\n  backlog   3 permits\n`+
		`  next slot in (2h|1h59m\d+s), for a caller with the quotas below\n`+
		`  available 0 permits at once, for a caller with the quotas below\n`+
		`  paused    no\n  quotas    2/1h\n            as the queue has them, guard included\n$`, out)

	require.NoError(t, q.Pause(t.Context(), 3*time.Hour))
	out = s.does("look", "tax")
	require.Regexp(t, `\n  next slot in (5h|4h59m\d+s), .*\n(.*\n)+  paused    for (3h|2h59m\d+s) more\n`, out)

	require.NoError(t, q.SetQuotas(t.Context(), fairlimit.Quota{Permits: 2, Per: time.Hour}))
	require.Regexp(t, `\n  next slot in \S+\n  available 0 permits at once\n`, s.does("look", "tax"),
		"stored quotas hold for everybody")
}

func TestLookTellsTheWindowsOfTheLastCaller(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.queue("tax", fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1},
		fairlimit.WithExtraQuota(fairlimit.Quota{Permits: 100, Per: 2 * time.Minute}),
		fairlimit.WithGuard(200*time.Millisecond))
	require.NoError(t, q.Wait(t.Context()))
	require.Contains(t, s.does("quota", "tax"), "\n  quotas    100/2m0.2s\n            1/60ms\n"+
		"            as the queue has them, guard included\n            at most 1 at one moment\n")
}

func TestLookTellsThatDifferentQuotasAreInUse(t *testing.T) {
	t.Parallel()
	const different = "\n            different quotas are in use: "
	s := newShell(t)
	s.backlog("tax", fairlimit.Quota{Permits: 2, Per: time.Hour}, 1)
	require.NotContains(t, s.does("look", "tax"), different)
	s.backlog("tax", fairlimit.Quota{Permits: 3, Per: time.Hour}, 1)
	require.Contains(t, s.does("look", "tax"), different+"others than these have asked lately\n")
	require.Contains(t, s.does("look", "tax", "-json"), `"quotas_differ":true`)
	s.does("quota", "tax", "1/2h")
	s.backlog("tax", fairlimit.Quota{Permits: 3, Per: time.Hour}, 1)
	out := s.does("look", "tax")
	fits(t, out)
	require.Contains(t, out, different+"the last caller had 3/1h\n")
}

func TestLookTellsTheFlows(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	q := s.backlog("tax", fairlimit.Every(time.Hour), 1)
	require.NotContains(t, s.does("look", "tax"), "flows")
	for id, weight := range map[string]int{"reports": 1, "orders": 3} {
		f, err := q.Flow(id, weight)
		require.NoError(t, err)
		_, err = f.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	require.Regexp(t, `\n  flows     2, of weights (1 3|3 1)\n`, s.does("look", "tax"))
	require.Contains(t, s.does("look", "tax", "-json"), `{"weight":3,"limiters":1}`)
	const flowless = "\n            callers without a flow stand beside them\n"
	require.NotContains(t, s.does("look", "tax"), flowless)
	s.backlog("tax", fairlimit.Every(time.Hour), 1)
	require.Contains(t, s.does("look", "tax"), flowless)
}

func TestLookAtAQueueThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Equal(t, "nix\n  idle      nobody waits, and nothing that was granted counts any more\n"+
		"  paused    no\n  quotas    unknown, none is stored\n", s.does("look", "nix"))
	require.JSONEq(t, `{"name":"nix","idle":true,"backlog":0,"delay_seconds":0,"available":null,
		"paused_seconds":0,"quotas":[],"quotas_stored":false,"quotas_differ":false}`, s.does("look", "nix", "-json"))
	require.Empty(t, s.does("ls", "-names"), "looking leaves nothing behind")
}

func TestLookAsJSON(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.backlog("a \"tax\"", fairlimit.Quota{Permits: 4, Per: time.Hour}, 1)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(s.does("look", "-json", "a \"tax\"")), &v))
	require.Equal(t, map[string]any{
		"name": "a \"tax\"", "idle": false, "backlog": 0.0, "delay_seconds": 0.0, "available": 3.0,
		"paused_seconds": 0.0, "quotas": []any{"4/1h"}, "quotas_stored": false,
		"quotas_differ": false,
	}, v)
}

func TestLookAtAKeyThatIsNoQueue(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{a}", "something else", 0).Err())
	r := s.run("look", "a")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.err, "no readable state")
	require.Equal(t, 1, strings.Count(r.err, "\n"), "a failure is no error of usage")
	require.NoError(t, s.rdb.Set(t.Context(), s.prefix+"{a}", "fair4 3/1000000 -", time.Hour).Err())
	require.Contains(t, s.run("look", "a").err, "Reset clears it")
}

func TestRedisThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{
		{"ls"},
		{"look", "a"},
		{"look", "a", "-watch"},
		{"pause", "a", "1s"},
		{"reset", "a", "-yes"},
		{"quota", "a"},
		{"quota", "a", "1/1s"},
		{"quota", "a", "-forget"},
		{"ls", "-redis", "127.0.0.1:1,127.0.0.1:2"},
		{"ls", "-redis", "redis+sentinel://127.0.0.1:1/main"},
		{"look", "a", "-redis", "127.0.0.1:1,127.0.0.1:2"},
		{"look", "a", "-redis", "redis+sentinel://127.0.0.1:1/main"},
		{"ls", "-redis", "unix:///nowhere"},
		{"ls", "-redis", "redis://u:secret@127.0.0.1:1"},
	} {
		t.Run(strings.Join(words, " "), func(t *testing.T) {
			t.Parallel()
			r := finish(t, process(nowhere, words...))
			assert.Equal(t, 3, r.status, r.err)
			assert.Empty(t, r.out)
			assert.Regexp(t, `^fairlimit: .*\nRedis was looked for at \S+: `+
				`-redis or \$FAIRLIMIT_REDIS says where it is\n$`, r.err)
			assert.NotContains(t, r.err, "secret")
		})
	}
}
