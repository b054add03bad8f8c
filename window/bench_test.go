package window_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// BenchmarkRun is what the costliest run of a script takes of the server: a
// full batch of different requests, few of which fit, over many entries of
// which half have passed.
func BenchmarkRun(b *testing.B) {
	server := redistest.StartServer(b)
	l := newLimiter(b, server.Client(), 20_000, 500*time.Millisecond)
	for range 3 {
		l.fill(10_000, 1)
		time.Sleep(510 * time.Millisecond)
	}
	requests := make([]engine.Request, 128)
	for i := range requests {
		requests[i].N = 1 + i*140
	}
	l.fill(2000, 9)
	l.do("CONFIG", "RESETSTAT")
	for b.Loop() {
		_, err := l.Take(b.Context(), requests)
		require.NoError(b, err)
	}
	stats := fmt.Sprint(l.do("INFO", "commandstats"))
	found := regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`).FindStringSubmatch(stats)
	require.NotNil(b, found, stats)
	mean, err := strconv.ParseFloat(found[1], 64)
	require.NoError(b, err)
	b.ReportMetric(mean, "µs/run")
}
