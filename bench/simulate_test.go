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
		{"-scenario", "steady", "-engines", "all", "-quota", "10/300ms", "-callers", "4", "-duration", "700ms"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			of := func(seed string) string { return simulated(t, append(args, "-seed", seed)...).stdout.String() }
			first := of("7")
			require.Equal(t, first, of("7"))
			require.NotEqual(t, strings.ReplaceAll(first, `"seed":7`, `"seed":8`), of("8"))
		})
	}
}

func TestASimulationSaysThatItIsOneAndWhatEnginesAreKnownFor(t *testing.T) {
	t.Parallel()
	p := simulated(t, "-scenario", "steady,crash", "-engines", "fair,window,redis_rate",
		"-duration", "8s", "-clients", "5", "-callers", "10")
	require.Contains(t, p.stdout.String(), `"simulated":true`)
	require.Contains(t, p.stderr.String(), "SIMULATION")
	require.Contains(t, p.stderr.String(), "crash: left out: it needs real processes")

	all := read(t, p.stdout.Bytes())
	require.Len(t, all, 1)
	fair, window, rate := all[0].Engines[0], all[0].Engines[1], all[0].Engines[2]
	for _, e := range all[0].Engines {
		require.InDelta(t, 160, e["grants"], 25)
		require.InDelta(t, 8, e["seconds"], 1e-9)
	}
	for _, none := range []string{"inversions", "upstream_rejections", "early"} {
		require.Zero(t, fair[none])
	}
	require.Greater(t, fair["utilization"], 0.99)
	require.Greater(t, window["inversions"], 100.0)
	require.NotContains(t, window, "early", "it promises no turns in the future")
	require.Greater(t, rate["max_in_window"], 35.0, "a whole burst, and what trickles in meanwhile")
}

func TestTokensAreUsedInOrderWithoutA429(t *testing.T) {
	t.Parallel()
	p := simulated(t, "-scenario", "tokens-most,tokens-75", "-engines", "fair", "-callers", "9", "-duration", "13s")
	all := read(t, p.stdout.Bytes())
	most, usual := all[0].Engines[0], all[1].Engines[0]
	require.Zero(t, most["upstream_rejections"])
	require.LessOrEqual(t, most["output"].(map[string]any)["fullest_window"], 1.0)
	require.Greater(t, usual["utilization"], 0.6)
	require.Less(t, usual["output"].(map[string]any)["fullest_window"], 1.4)
	require.Zero(t, usual["inversions"])
	require.Zero(t, usual["promised_excess"], "no window of turns is over the quota of a unit")
}

func TestTheReportIsWhereItIsSaidToBe(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	for _, out := range [][]string{{"-out", dir}, nil} {
		p := bench(t.Context(), t, append(out, "-simulate", "-engines", "fair", "-duration", "3s")...)
		require.Zero(t, p.status(t, p.Run()), p.stderr.String())
		_, path, told := strings.Cut(strings.TrimSpace(p.stdout.String()), "pictures: ")
		require.True(t, told)
		require.FileExists(t, path)
		require.True(t, out == nil || filepath.Dir(path) == dir, path)
	}
}
