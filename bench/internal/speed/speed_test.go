package speed

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// BenchmarkSpeed has the rows of the table as benchmarks: ours, and the yardstick
// beside it.
func BenchmarkSpeed(b *testing.B) {
	server, err := backend.Start(b.Context())
	if err != nil {
		b.Skip(err)
	}
	defer server.Close()
	bed, err := newBed(b.Context(), server.Addr)
	require.NoError(b, err)
	for _, r := range rows {
		for name, side := range map[string]side{r.yardstick: r.known, "fairlimit": r.ours} {
			if side == nil {
				continue
			}
			b.Run(r.what+"/"+name, func(b *testing.B) {
				value, err := side(b.Context(), bed, b)
				require.NoError(b, err)
				b.ReportMetric(0, "ns/op") // an operation is many calls
				b.ReportMetric(value, strings.ReplaceAll(r.unit, " ", "-"))
			})
		}
	}
	require.NoError(b, bed.close())
}

func TestEveryRowIsMeasuredAndNothingStays(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	var progress bytes.Buffer
	r := Run{
		Redis: server.Addr(), Rounds: 1, Round: 20 * time.Millisecond, Progress: &progress, JSON: io.Discard,
	}
	all, err := r.Measure(t.Context())
	require.NoError(t, err)
	require.NotContains(t, progress.String(), "not measured")
	require.Len(t, all.Figures, len(rows))
	require.NoError(t, Table(t.Output(), all.Figures))
	for _, f := range all.Figures {
		require.Positive(t, f.Ours, f.What)
		require.Equal(t, f.Yardstick != "", f.Ratio != nil, f.What)
	}
	require.Eventually(t, func() bool {
		left, err := server.Client().Keys(t.Context(), "*").Result()
		return err == nil && len(left) == 0
	}, 5*time.Second, 50*time.Millisecond)
}

func TestARowIsTheMedianOfItsRatiosHeldAgainstItsGoal(t *testing.T) {
	r := row{"script", "it", "µs", "yardstick", nil, nil, atMost(2)}
	var text bytes.Buffer
	require.NoError(t, Table(&text, []Figure{
		r.figure([]float64{2, 4, 100}, []float64{4, 12, 100}), // the ratios are 2, 3 and 1
		row{what: "more", unit: "a second", goal: atLeast(15)}.figure(nil, []float64{1_234_567}),
		row{what: "less", unit: "MB", goal: atMost(1)}.figure(nil, []float64{1.5}),
	}))
	require.Equal(t, []string{
		"what  yardstick        ours              ratio  middle half  goal",
		"it    yardstick  4 µs  12 µs             2 ×    1–3          at most 2 ×, met",
		"more                   1234567 a second                      at least 15 a second, met",
		"less                   1.5 MB                                at most 1 MB, missed",
		"",
	}, strings.Split(text.String(), "\n"))
}
