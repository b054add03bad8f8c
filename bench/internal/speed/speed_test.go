package speed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(run.Role) != "" {
		Main()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or every process ends a second late
	os.Exit(m.Run())
}

// least shows that everything works; its figures say nothing.
var least = Scale{
	Rounds: 1, Round: 30 * time.Millisecond, Calls: 10, Window: 300 * time.Millisecond,
	Callers: 32, Queue: [2]int{50, 300},
}

// tiny is what a run of some groups gives, by group, and what it says.
func tiny(t *testing.T, addr string, groups ...string) (figures map[string][]Figure, says string) {
	t.Helper()
	var progress bytes.Buffer
	r := Run{Redis: addr, Groups: groups, Scale: least, Progress: &progress, JSON: io.Discard}
	all, err := r.Measure(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, all.Server)
	require.Equal(t, strings.Contains(progress.String(), "not measured"), all.Failed)
	figures = map[string][]Figure{}
	for _, f := range all.Figures {
		figures[f.Row] = append(figures[f.Row], f)
	}
	return figures, progress.String()
}

// Each row says in its own words what it measures, and fails where it measures
// something else: see [scene.before] and [queue.ask].
func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	got, says := tiny(t, server.Addr(), Names()...)
	require.NotContains(t, says, "not measured")
	for _, group := range Names() {
		var want int
		for _, r := range rows {
			if r.group == group {
				if want++; group == "script" {
					want += len(parts) - 1
				}
			}
		}
		require.Positive(t, want, group)
		require.Len(t, got[group], want, group)
		for _, f := range got[group] {
			t.Log(f.Row, f.cells())
			require.Equal(t, f.Yardstick != "", f.Known != nil, f.What)
			require.Equal(t, f.Goal != nil, f.Met != nil, f.What)
			if f.Goal != nil && f.Goal.Of == ofRatio {
				require.Positive(t, *f.Ratio, f.What)
			}
		}
	}
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
	got, says := tiny(t, server.Addr(), "batch", "alone")
	require.Contains(t, says, "batch: not measured: ")
	require.Contains(t, says, backend.ErrUncounted.Error())
	require.Len(t, got["alone"], 2)
}

// on is a bed at a server of its own.
func on(t *testing.T) *bed {
	t.Helper()
	server := redistest.StartServer(t)
	b := newBed(least, server.Addr(), redis.NewClient(&redis.Options{Addr: server.Addr()}))
	t.Cleanup(func() { require.NoError(t, b.close()) })
	return b
}

func TestAQueueInAnotherConditionIsNotMeasured(t *testing.T) {
	t.Parallel()
	b := on(t)
	for want, s := range map[turn]scene{
		atOnce:  {quotas: "100/1h", first: hold(100)},
		queued:  {quotas: ample},
		refused: {quotas: ample},
		paused:  {quotas: secondly, first: hold(10)},
	} {
		s.turn = want
		q, err := b.queue(t.Context(), s)
		require.NoError(t, err)
		require.ErrorContains(t, q.ready(t.Context()), string(want))
	}
}

func TestScenesAreInTheirCondition(t *testing.T) {
	t.Parallel()
	b := on(t)
	for what, holds := range map[string]func(*queue, engine.Status) bool{
		"1,000 flows, queued":           func(_ *queue, s engine.Status) bool { return s.Queued > 1000 },
		"in a pause":                    func(_ *queue, s engine.Status) bool { return s.Paused > time.Minute },
		"after a pause":                 func(_ *queue, s engine.Status) bool { return s.Paused == 0 && s.Queued > 50 },
		"after returns":                 func(_ *queue, s engine.Status) bool { return s.Queued > 100 && s.Queued < 190 },
		"after a loss":                  func(q *queue, s engine.Status) bool { return q.lost.Load() && s.Queued > 50 },
		"one quota, crowded, saturated": func(_ *queue, s engine.Status) bool { return s.Queued > 100 },
		"one quota, refused":            func(_ *queue, s engine.Status) bool { return s.Available == 0 },
	} {
		i := slices.IndexFunc(scenes, func(s scene) bool { return s.what == what })
		require.GreaterOrEqual(t, i, 0, what)
		q, err := b.queue(t.Context(), scenes[i])
		require.NoError(t, err)
		require.NoError(t, q.ready(t.Context()), what)
		status, err := q.engines[0].Status(t.Context())
		require.NoError(t, err)
		require.True(t, holds(q, status), "%s: %+v", what, status)
	}
}

func TestTheLongestRunIsOneOfSeveral(t *testing.T) {
	t.Parallel()
	b := on(t)
	most := 0.0
	q, err := b.queue(t.Context(), scene{quotas: secondly}, b.timer(&most))
	require.NoError(t, err)
	all, err := b.served(t.Context(), func() error {
		_, err := q.take(t.Context(), permits(600, oneToFive)...)
		return err
	})
	require.NoError(t, err)
	require.Positive(t, most)
	require.Less(t, most, all.Micros, "a question for so many takes several runs")
}

func TestBothSidesTakeTurnsAndSoDoesWhoBegins(t *testing.T) {
	var order []string
	values := map[string][]float64{"yardstick": {2, 4, 100}, "ours": {4, 12, 100}}
	side := func(name string) side {
		return func(context.Context, *bed) (probe, error) {
			return func(context.Context) ([]float64, error) {
				order = append(order, name)
				value := values[name][0]
				values[name] = values[name][1:]
				return []float64{value, 1}, nil
			}, nil
		}
	}
	r := row{yardstick: "it", rounds: 3, group: "script", known: side("yardstick"), ours: side("ours")}
	got, err := r.measure(t.Context(), &bed{Scale: Scale{Rounds: 1}})
	require.NoError(t, err)
	require.Equal(t, []string{"yardstick", "ours", "ours", "yardstick", "yardstick", "ours"}, order)
	require.Equal(t, []float64{4, 12, 2, 1, 3},
		[]float64{*got[0].Known, got[0].Ours, *got[0].Ratio, got[0].Middle[0], got[0].Middle[1]},
		"the median of the ratios 2, 3 and 1, not the ratio of the medians")
	require.Equal(t, 1.0, *got[1].Ratio)
}

func TestQuantilesAreThoseOfASortedCopy(t *testing.T) {
	values := []float64{4, 3, 2, 1}
	require.Equal(t, []float64{1, 3, 4, 4, 0}, []float64{
		quantile(values, 0), quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1), quantile(nil, 0.5),
	})
	require.Equal(t, []float64{4, 3, 2, 1}, values)
}

func TestARateCountsOnlyWhatEndsWhileItCounts(t *testing.T) {
	const callers, lasting = 4, 5 * time.Millisecond
	sleep := slices.Repeat([]call{func(context.Context) error { time.Sleep(lasting); return nil }}, callers)
	per, err := rate(sleep, 100*time.Millisecond, 50*time.Millisecond, 0)
	require.NoError(t, err)
	require.LessOrEqual(t, per, 1.3*callers/lasting.Seconds(), "the calls of the warm-up do not count")
	require.Positive(t, per)

	broken := errors.New("broken")
	_, err = rate([]call{func(context.Context) error { return broken }}, 0, time.Millisecond, 0)
	require.ErrorIs(t, err, broken)
	took, err := p99(t.Context(), &bed{Scale: least}, sleep)
	require.NoError(t, err)
	require.GreaterOrEqual(t, took[0], float64(lasting.Microseconds()))
}

func TestGoals(t *testing.T) {
	for name, c := range map[string]struct {
		ours, yardstick float64
		goal            Goal
		met             bool
	}{
		"ratio enough":           {30, 2, ratioAtLeast(15), true},
		"ratio short":            {29, 2, ratioAtLeast(15), false},
		"ratio little enough":    {12, 10, ratioAtMost(1.2), true},
		"ratio too much":         {13, 10, ratioAtMost(1.2), false},
		"no ratio":               {13, 0, ratioAtMost(1.2), false},
		"ours little enough":     {1, 10, oursAtMost(1), true},
		"ours too much":          {2, 10, oursAtMost(1), false},
		"ours without yardstick": {0, 0, oursAtMost(0), true},
	} {
		f := Figure{Ours: c.ours}.beside("it", []float64{c.yardstick}, []float64{c.ours}).against(c.goal)
		require.Equal(t, c.met, *f.Met, name)
	}
	require.Nil(t, Figure{}.against(Goal{}).Met)
}

func TestTheTableTellsWhatWasMetAndWhatWasMissed(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, Table(&text, []Figure{
		Figure{Row: "a", What: "met", Unit: "µs", Ours: 1.06}.
			beside("yardstick", []float64{1}, []float64{1.06}).against(ratioAtMost(1.2)),
		Figure{Row: "a", What: "missed", Unit: "a second", Ours: 1_234_567}.
			beside("yardstick", []float64{50_000, 100_000, 137_174}, []float64{450_000, 1_234_567, 2_063_100}).
			against(ratioAtLeast(15)),
		Figure{Row: "b", What: "of ours", Unit: "ms", Ours: 0.05}.against(oursAtMost(1.5)),
		{Row: "b", What: "no goal"},
	}))
	require.Equal(t, []string{
		"what     yardstick                    ours                ratio   middle half  goal",
		"met      yardstick  1 µs              1.06 µs             1.06 ×  1.06–1.06    at most 1.2 ×   met",
		"missed   yardstick  100,000 a second  1,234,567 a second  12.3 ×  9–15         at least 15 ×   missed",
		"",
		"of ours                               0.05 ms                                  at most 1.5 ms  met",
		"no goal                               0",
		"",
	}, strings.Split(text.String(), "\n"))
}
