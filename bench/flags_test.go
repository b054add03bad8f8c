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

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/bench/internal/soak"
	"github.com/fairlimit/fairlimit/bench/internal/speed"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func parsed(t *testing.T, args ...string) plan {
	t.Helper()
	p, err := parse(args, io.Discard)
	require.NoError(t, err)
	return p
}

func TestWithoutFlags(t *testing.T) {
	p := parsed(t)
	require.Len(t, p.rounds, 1)
	require.Equal(t, "steady", p.rounds[0].scenario.Name)
	require.Equal(t, scenario.Load{
		Quota: scenario.Quota{Permits: 20, Per: time.Second}, Guard: 10 * time.Millisecond,
		Clients: 4, Callers: 8, Duration: 12 * time.Second, Seed: 1,
	}, p.rounds[0].load)
	require.Equal(t, "fair", p.rounds[0].engines[0].Name)
	require.Equal(t, "window", p.rounds[0].engines[1].Name)
	require.Len(t, p.rounds[0].engines, 2, "the others are there for those who ask")
}

func TestAllIsAll(t *testing.T) {
	p := parsed(t, "-scenario", "all", "-engines", "all")
	require.Len(t, p.rounds, len(scenario.All))
	require.Len(t, p.rounds[0].engines, len(engines.All)-2, "two are for tokens only")
	last := p.rounds[len(p.rounds)-1]
	require.Len(t, last.engines, 5, "the others count no tokens")
	require.Contains(t, last.scenario.Name, "tokens-")
	require.Len(t, parsed(t, "-scenario", "burst, crash").rounds, 2)
}

func TestAFlagComesBeforeWhatTheScenarioWants(t *testing.T) {
	greedy := parsed(t, "-scenario", "greedy", "-clients", "3").rounds[0].load
	require.Equal(t, 3, greedy.Clients)
	require.Equal(t, 1, greedy.Callers)
	require.Equal(t, 20, greedy.Quota.Permits)
	require.Equal(t, 1, greedy.Quota.Burst)

	require.Equal(t, 250*time.Millisecond, parsed(t, "-scenario", "laggy").rounds[0].load.Guard)
	require.Zero(t, parsed(t, "-scenario", "laggy", "-guard", "0").rounds[0].load.Guard)
	require.Equal(t, 4, parsed(t, "-scenario", "greedy", "-quota", "4/2s").rounds[0].load.Quota.Permits)
	require.False(t, parsed(t, "-quota", "4/2s").rounds[0].guarded, "the guard follows from the machine")
	require.True(t, parsed(t, "-guard", "10ms").rounds[0].guarded, "what was given stays")
	require.True(t, parsed(t, "-simulate").rounds[0].guarded)
}

func TestASimulationHoldsMoreCallersThanAMachine(t *testing.T) {
	require.Equal(t, 20_000, parsed(t, "-simulate", "-callers", "20000").rounds[0].load.Callers)
	require.Equal(t, 2500, parsed(t, "-callers", "2500").rounds[0].load.Callers, "as many as there may be")
	_, err := parse([]string{"-callers", "2501"}, io.Discard)
	require.ErrorContains(t, err, "10004 callers")
}

func TestOneNameMayStandForSeveralScenarios(t *testing.T) {
	p := parsed(t, "-scenario", "few,steady")
	require.Len(t, p.rounds, 7)
	require.Equal(t, "few-3-every", p.rounds[0].scenario.Name)
	require.Len(t, p.rounds[0].engines, 4, "those of the scenario")
	require.Len(t, p.rounds[6].engines, 2)
	require.Len(t, parsed(t, "-scenario", "few", "-engines", "fair").rounds[0].engines, 1)
}

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
