package speed

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// BenchmarkSpeed has the rows of the table as benchmarks: ours, and the yardstick
// beside it.
func BenchmarkSpeed(b *testing.B) {
	server := redistest.StartServer(b)
	for _, r := range rows {
		for name, side := range map[string]side{r.yardstick: r.known, "fairlimit": r.ours} {
			b.Run(r.name+"/"+name, func(b *testing.B) {
				require.NoError(b, run(b.Context(), b, server.Client(), side))
			})
		}
	}
}

func TestEveryRowIsMeasuredAndNothingStays(t *testing.T) {
	r := Run{Redis: redistest.StartServer(t).Addr(), Rounds: 1, Round: "50x", Progress: io.Discard}
	server, err := r.Open(t.Context())
	require.NoError(t, err)
	defer server.Close()
	var table bytes.Buffer
	require.NoError(t, r.Table(t.Context(), server, &table))
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	require.Len(t, lines, 1+len(rows))
	for i, line := range lines[1:] {
		require.Regexp(t, rows[i].name+` +[1-9].*`+rows[i].yardstick+` +[1-9].* [0-9.]+ +[0-9.]+–[0-9.]+$`, line)
	}
	left, err := server.Client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, left)
}
