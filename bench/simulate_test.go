package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func simulated(t *testing.T, args ...string) *program {
	t.Helper()
	p := bench(t.Context(), t, append([]string{"-simulate", "-json", "-", "-out", "none"}, args...)...)
	require.Zero(t, p.status(t, p.Run()), p.stderr.String())
	return p
}

func TestASeedLeadsToTheSameFiguresEachTime(t *testing.T) {
	t.Parallel()
	// Not those that compare flows: limiters of one flow draw names of their own.
	scenarios := redistest.Long("weighted,fickle,onoff", "steady,weighted,fickle,onoff,laggy")
	for _, args := range [][]string{
		{"-scenario", scenarios, "-quota", "10/300ms", "-clients", "3", "-callers", "6", "-duration", "1100ms"},
		{"-scenario", "steady", "-engines", "all", "-duration", "2100ms"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			args = append(args, "-seed", "7")
			require.Equal(t, simulated(t, args...).stdout.String(), simulated(t, args...).stdout.String())
		})
	}
}

func TestAnotherSeedLeadsToOtherFigures(t *testing.T) {
	t.Parallel()
	of := func(seed string) string {
		return simulated(t, "-scenario", "steady", "-duration", "3s", "-seed", seed).stdout.String()
	}
	require.NotEqual(t, strings.ReplaceAll(of("7"), `"seed":7`, `"seed":8`), of("8"))
}

func TestASimulationSaysThatItIsOne(t *testing.T) {
	t.Parallel()
	p := simulated(t, "-scenario", "steady,crash", "-duration", "20s", "-clients", "5", "-callers", "20")
	require.Contains(t, p.stdout.String(), `"simulated":true`)
	require.Contains(t, p.stderr.String(), "SIMULATION")
	require.Contains(t, p.stderr.String(), "crash: left out: it needs real processes")

	all := read(t, p.stdout.Bytes())
	require.Len(t, all, 1)
	fair, window := all[0].Engines[0], all[0].Engines[1]
	for _, e := range all[0].Engines {
		require.InDelta(t, 400, e["grants"], 25)
		require.InDelta(t, 20, e["seconds"], 1e-9)
	}
	require.Zero(t, fair["inversions"])
	require.Zero(t, fair["upstream_rejections"])
	require.Zero(t, fair["early"])
	require.Greater(t, fair["utilization"], 0.99)
	require.Greater(t, window["inversions"], 100.0)
}

func TestTokensAreUsedInOrderWithoutA429(t *testing.T) {
	t.Parallel()
	of := func(estimate, engines string) []map[string]any {
		p := simulated(t, "-scenario", "tokens-"+estimate, "-engines", engines, "-quota", "200/1m", "-duration", "150s")
		return read(t, p.stdout.Bytes())[0].Engines
	}
	most := of("most", "fair")[0]
	require.Zero(t, most["upstream_rejections"])
	require.LessOrEqual(t, most["output"].(map[string]any)["fullest_window"], 1.0)
	for _, e := range of("75", "fair,fair+flows,chained,redis_rate,rival") {
		require.Greater(t, e["utilization"], 0.6, e["engine"])
		require.Less(t, e["output"].(map[string]any)["fullest_window"], 1.4, e["engine"])
		if e["engine"] == "fair" {
			require.Zero(t, e["inversions"])
			require.Zero(t, e["promised_excess"], "no window of turns is over the quota of a unit")
			require.Zero(t, e["promised_inversions"])
		}
	}
}

func TestTheReportIsWhereItIsSaidToBe(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	p := bench(t.Context(), t, "-simulate", "-engines", "fair", "-duration", "3s", "-out", dir)
	require.Zero(t, p.status(t, p.Run()), p.stderr.String())
	require.Contains(t, p.stdout.String(), "pictures: "+filepath.Join(dir, "index.html")+"\n")
	require.FileExists(t, filepath.Join(dir, "index.html"))

	p = bench(t.Context(), t, "-simulate", "-engines", "fair", "-duration", "3s")
	require.Zero(t, p.status(t, p.Run()), p.stderr.String())
	_, path, told := strings.Cut(p.stdout.String(), "pictures: ")
	require.True(t, told)
	require.FileExists(t, strings.TrimSpace(path))
}
