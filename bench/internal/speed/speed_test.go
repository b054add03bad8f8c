package speed

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
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

// BenchmarkMemory is what callers take that wait for turns far ahead.
func BenchmarkMemory(b *testing.B) {
	const many = 2000
	q, err := fairlimit.NewQueue(redistest.StartServer(b).Client(), "memory", fairlimit.PerSecond(1))
	require.NoError(b, err)
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := inUse()
	ctx, leave := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for range many {
		all.Go(func() { _ = q.Wait(ctx) })
	}
	require.Eventually(b, func() bool {
		s, err := q.Status(ctx)
		return err == nil && s.Queued > many-20
	}, time.Minute, 10*time.Millisecond)
	b.ReportMetric(float64(inUse()-before)/many/1000, "KB/caller")
	leave()
	all.Wait()
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
