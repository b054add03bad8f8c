package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/soak"
	"github.com/fairlimit/fairlimit/bench/internal/speed"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestDefaultsOfSpeedAndSoak(t *testing.T) {
	fast, _, err := parseSpeed([]string{"-quick"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, speed.Quick, fast.Scale)
	full, _, err := parseSpeed(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, speed.Run{Groups: speed.Names(), Scale: speed.Full}, full)
	long, _, err := parseSoak(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 3*time.Minute, long.Duration)
	require.NotZero(t, long.Seed, "another each time")
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

func TestCtrlCShowsTheSpeedsThatWereMeasured(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	path := filepath.Join(t.TempDir(), "speed.json")
	bounded, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	p := bench(bounded, t, "speed", "-quick", "-redis", server.Addr(), "-rows", "batch,throughput", "-json", path)
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(path)
		return err == nil && len(text) > 0
	}, 50*time.Second, 10*time.Millisecond, "nothing was measured")

	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Zero(t, p.status(t, p.Wait()), p.stderr.String())
	require.Contains(t, p.stdout.String(), "ten at a slot")
	require.NotContains(t, p.stdout.String(), "processes")
	require.NotContains(t, p.stderr.String(), "not measured")
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var f speed.Figure
	require.NoError(t, json.NewDecoder(file).Decode(&f))
	require.Equal(t, "batch", f.Row)

	left, err := server.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, left)
}
