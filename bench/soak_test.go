package main

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/soak"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestFlagsOfSoak(t *testing.T) {
	r, path, err := parseSoak(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 3*time.Minute, r.Duration)
	require.NotZero(t, r.Seed, "another each time")
	require.Empty(t, path)

	r, path, err = parseSoak([]string{"-duration", "1h", "-seed", "7", "-json", "-"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, time.Hour, r.Duration)
	require.EqualValues(t, 7, r.Seed)
	require.Equal(t, "-", path)
}

func TestWhatSoakCannotDoIsToldInOneLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no such flag": {[]string{"-nothing"}, "-h"},
		"an argument":  {[]string{"hard"}, "-h"},
		"no time":      {[]string{"-duration", "0s"}, "-duration"},
		"no server":    {nil, "redis-server in PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			p := bench(t.Context(), t, append([]string{"soak"}, c.args...)...)
			p.Env = append(p.Env, "PATH="+t.TempDir(), "FAIRLIMIT_REDIS_SERVER=")
			p.cannotRun(t, c.says)
		})
	}
}

// TestASmallSoakKeepsEveryPromise is the command's own run, only shorter.
func TestASmallSoakKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	_ = redistest.Standalone(t) // skips where there is no Redis
	p := bench(t.Context(), t, "soak", "-duration", "4s", "-seed", "1", "-json", "-")
	require.Zero(t, p.status(t, p.Run()), "%s%s", p.stdout.String(), p.stderr.String())
	var r soak.Report
	require.NoError(t, json.Unmarshal(p.stdout.Bytes(), &r))
	require.Empty(t, r.Broken)
	require.Positive(t, r.Counts["permits let through"])
	require.NotEmpty(t, r.Faults)
	require.Contains(t, p.stderr.String(), "every promise was kept")
}
