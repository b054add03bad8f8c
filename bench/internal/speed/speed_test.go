package speed

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(Role) != "" {
		if err := Main(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or every process ends a second late
	os.Exit(m.Run())
}

// least shows that everything works; its figures say nothing.
var least = Scale{
	Rounds: 1, Round: 30 * time.Millisecond, Calls: 10, Windows: 0.1,
	Callers: 32, Burst: 20, Sleepers: 50, Rest: 20 * time.Millisecond, Limiters: 50, Queue: [2]int{50, 300},
}

// taken is what a run gave.
type taken struct {
	begun   []string
	figures map[string][]Figure // by row
	faults  map[string]error
}

func tiny(t *testing.T, redis string, rows ...string) taken {
	t.Helper()
	got := taken{figures: map[string][]Figure{}, faults: map[string]error{}}
	r := Run{
		Redis: redis, Rows: rows, Scale: least,
		Begin: func(row, _ string, _, _ int) { got.begun = append(got.begun, row) },
		Took:  func(f Figure) { got.figures[f.Row] = append(got.figures[f.Row], f) },
		Fault: func(row string, err error) { got.faults[row] = err },
	}
	server, err := r.Measure(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, server)
	return got
}

func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	got := tiny(t, server.Addr())
	require.Empty(t, got.faults)
	require.Equal(t, Names(), got.begun)
	count := map[string]int{
		"throughput": 3, "alone": 2, "peer-alone": 2, "limiters": 1, "channels": 1, "crowd": 1, "allocations": 2,
		"script": 1, "busy": 8, "spread": 4, "batch": 2, "queue": 2, "bytes": 1, "calls": 2,
		"punctual": 4, "asleep": 2, "idle": 3,
	}
	for _, row := range Names() {
		require.Len(t, got.figures[row], count[row], row)
		for _, f := range got.figures[row] {
			t.Logf("%s: %s: %v (%v)", row, f.What, f.Ours, f.Known)
			if f.Known != nil {
				require.NotEmpty(t, f.Yardstick, f.What)
				require.Equal(t, *f.Known > 0, f.Ratio != nil, f.What)
			}
			require.Equal(t, f.Goal != nil, f.Met != nil, f.What)
			if f.Goal != nil && f.Goal.Of == ofRatio {
				require.Positive(t, *f.Ratio, f.What)
			}
		}
	}
	ours := func(row string, i int) float64 { return got.figures[row][i].Ours }
	known := func(row string, i int) float64 { return *got.figures[row][i].Known }
	require.Positive(t, ours("punctual", 2), "somebody was late by a µs at least")
	require.Zero(t, ours("punctual", 3), "nobody is early")
	require.Zero(t, ours("idle", 2), "an idle limiter has no goroutine")
	require.Greater(t, ours("bytes", 0), 50.0)
	require.Greater(t, known("bytes", 0), 50.0, "a key of window's at least")
	require.LessOrEqual(t, ours("calls", 0), 1.0, "one question a turn")
	require.Greater(t, known("calls", 1), 1.0, "half of them came too early")
	require.Greater(t, ours("script", 0), ours("batch", 0), "a run is for 64 grants")

	require.Eventually(t, func() bool {
		left, err := server.Client().Keys(t.Context(), "*").Result()
		return err == nil && len(left) == 0
	}, 5*time.Second, 50*time.Millisecond, "what was measured with is removed, or expires")
}

func TestARowThatCannotBeMeasuredIsToldAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start() // it does not say how long a script takes
	require.NoError(t, err)
	defer server.Close()
	got := tiny(t, server.Addr(), "script", "alone")
	require.ErrorContains(t, got.faults["script"], backend.ErrUncounted.Error())
	require.Len(t, got.faults, 1)
	require.Len(t, got.figures["alone"], 2)
}

func TestACtxThatEndsEndsTheRun(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := Run{Redis: server.Addr(), Rows: []string{"alone", "script"}, Scale: Full, Took: func(Figure) {}}
	r.Begin = func(string, string, int, int) { time.AfterFunc(300*time.Millisecond, cancel) }
	var faults []error
	r.Fault = func(_ string, err error) { faults = append(faults, err) }
	began := time.Now()
	_, err := r.Measure(ctx)
	require.NoError(t, err)
	require.Empty(t, faults, "to be ended is no fault")
	require.Less(t, time.Since(began), 2*grace, "nobody had to be killed")
	left, err := server.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAnUnknownRowIsRefusedWithThoseThereAre(t *testing.T) {
	require.ErrorContains(t, Run{Rows: []string{"alone", "nothing"}}.Check(), "throughput")
	require.NoError(t, Run{Rows: []string{"alone"}}.Check())
	require.NoError(t, Run{}.Check())
}

func TestBothSidesTakeTurnsAndSoDoesWhoBegins(t *testing.T) {
	var order []string
	values := map[string][]float64{"yardstick": {2, 4, 100}, "ours": {4, 12, 100}}
	side := func(name string) measure {
		return func(context.Context) (float64, error) {
			order = append(order, name)
			value := values[name][0]
			values[name] = values[name][1:]
			return value, nil
		}
	}
	p, err := inTurn(t.Context(), 3, side("yardstick"), side("ours"))
	require.NoError(t, err)
	require.Equal(t, []string{"yardstick", "ours", "ours", "yardstick", "yardstick", "ours"}, order)
	require.Equal(t, pair{yardstick: 4, ours: 12, ratio: 2, middle: [2]float64{1, 3}}, p,
		"the median of the ratios 2, 3 and 1, not the ratio of the medians")
}

func TestARoundThatFailsEndsTheRounds(t *testing.T) {
	broken := errors.New("broken")
	runs := 0
	fails := func(context.Context) (float64, error) { runs++; return 0, broken }
	_, err := inTurn(t.Context(), 3, fails, fails)
	require.ErrorIs(t, err, broken)
	require.Equal(t, 1, runs)
}

func TestQuantiles(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	before := slices.Clone(hundred)
	require.EqualValues(t, 51, quantile(hundred, 0.5))
	require.EqualValues(t, 100, quantile(hundred, 0.99))
	require.EqualValues(t, 100, quantile(hundred, 1))
	require.Equal(t, before, hundred, "it sorts a copy")
	require.Zero(t, quantile([]float64{}, 0.5))
}

func TestAThrongCountsOnlyWhatEndsWhileItCounts(t *testing.T) {
	const callers, lasting = 4, 5 * time.Millisecond
	sleep := alike(callers, func(context.Context) error { time.Sleep(lasting); return nil })
	per, err := rate(t.Context(), sleep, 100*time.Millisecond, 50*time.Millisecond)
	require.NoError(t, err)
	require.LessOrEqual(t, per, 1.3*callers/lasting.Seconds(), "the calls of the warm-up do not count")
	require.Positive(t, per)

	broken := errors.New("broken")
	_, err = rate(t.Context(), alike(callers, func(context.Context) error { return broken }), 0, time.Millisecond)
	require.ErrorIs(t, err, broken)
	took, err := slowest(t.Context(), sleep, 0, 50*time.Millisecond)
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, float64(lasting.Microseconds()))
}

func TestGoals(t *testing.T) {
	at := func(ours, yardstick float64, g *Goal) Figure {
		return Figure{Ours: ours}.besideOne("it", yardstick).against(g)
	}
	for name, c := range map[string]struct {
		figure      Figure
		met, marked bool
	}{
		"ratio enough":           {at(30, 2, ratioAtLeast(15).andMark(20)), true, false},
		"ratio over the mark":    {at(40, 2, ratioAtLeast(15).andMark(20)), true, true},
		"ratio short":            {at(29, 2, ratioAtLeast(15).andMark(20)), false, false},
		"ratio little enough":    {at(12, 10, ratioAtMost(1.2).andMark(1.1)), true, false},
		"ratio under the mark":   {at(11, 10, ratioAtMost(1.2).andMark(1.1)), true, true},
		"ratio too much":         {at(13, 10, ratioAtMost(1.2).andMark(1.1)), false, false},
		"no ratio":               {at(13, 0, ratioAtMost(1.2).andMark(1.1)), false, false},
		"ours little enough":     {at(1, 10, oursAtMost(1)), true, false},
		"ours too much":          {at(2, 10, oursAtMost(1)), false, false},
		"ours without yardstick": {Figure{Ours: 0}.against(oursAtMost(0)), true, false},
	} {
		require.Equal(t, c.met, *c.figure.Met, name)
		require.Equal(t, c.marked, c.figure.marked(), name)
	}
}

func TestTheTableTellsWhatWasMetAndWhatWasMissed(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, Table(&text, []Figure{
		Figure{Row: "a", What: "met", Unit: "µs", Note: "of note"}.
			beside("yardstick", pair{1, 1.06, 1.06, [2]float64{1.02, 1.1}}).
			against(ratioAtMost(1.2).andMark(1.1)),
		Figure{Row: "a", What: "missed", Unit: "a second"}.
			beside("yardstick", pair{50_000, 1_234_567, 12.3, [2]float64{9, 15.04}}).
			against(ratioAtLeast(15)),
		Figure{Row: "b", What: "of ours", Unit: "ms", Ours: 0.05}.against(oursAtMost(1.5)),
		{Row: "b", What: "no goal"},
	}))
	require.Equal(t, []string{
		"what     yardstick                   ours                ratio   middle half  goal",
		"met      yardstick  1 µs             1.06 µs             1.06 ×  1.02–1.10    at most 1.2 ×   " +
			"met, and the mark of 1.1",
		"missed   yardstick  50,000 a second  1,234,567 a second  12.3 ×  9–15.0       at least 15 ×   missed",
		"",
		"of ours                              0.0500 ms                                at most 1.5 ms  met",
		"no goal                              0",
		"a: met: of note",
		"",
	}, strings.Split(text.String(), "\n"))
}
