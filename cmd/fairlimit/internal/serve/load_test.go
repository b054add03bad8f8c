package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkTurns lets 1,024 callers over 64 connections of a socket take turns
// that come at once, and ask a bare server of net/http for as many bytes, in
// turn. It tells how the two compare:
//
//	go test -run '^$' -bench Turns ./cmd/fairlimit/internal/serve
func BenchmarkTurns(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bare")
	l, err := net.Listen("unix", path)
	require.NoError(b, err)
	bare := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "{\"turn\":%q,\"waited_ms\":0}\n", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	})}
	go func() { _ = bare.Serve(l) }()
	b.Cleanup(func() { _ = bare.Close() })
	s := started(b, "unix")
	const round = 500 * time.Millisecond
	var ours, theirs int64
	for b.Loop() {
		theirs += turnsOver(b, path, round)
		ours += turnsOver(b, s.path, round)
	}
	seconds := float64(b.N) * round.Seconds()
	b.ReportMetric(float64(ours)/seconds, "turns/s")
	b.ReportMetric(float64(theirs)/seconds, "bare/s")
	ratio := float64(ours) / float64(theirs)
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(0, "ns/op")
	require.Greater(b, ratio, 0.25)
}

// turnsOver counts the answers to 1,024 callers over 64 connections.
func turnsOver(b *testing.B, path string, d time.Duration) int64 {
	transport := &http.Transport{
		MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var answered atomic.Int64
	var callers sync.WaitGroup
	end := time.Now().Add(d)
	for range 1024 {
		callers.Go(func() {
			for time.Now().Before(end) {
				answer, err := client.Post("http://fairlimit/v1/queues/fast/turn", "", nil)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				answered.Add(1)
			}
		})
	}
	callers.Wait()
	return answered.Load()
}
