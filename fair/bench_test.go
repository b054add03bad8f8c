package fair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// scriptTime is how long the server has been running this engine's script so
// far, and how often.
func scriptTime(b *testing.B, f *fair) (micros, calls float64) {
	_, rest, _ := strings.Cut(f.client.Info(b.Context(), "commandstats").Val(), "cmdstat_evalsha:calls=")
	_, _ = fmt.Sscanf(rest, "%f,usec=%f", &calls, &micros)
	return micros, calls
}

// BenchmarkScript measures what one run costs the server, on a clock that moves
// only as told.
func BenchmarkScript(b *testing.B) {
	s := redistest.StartServer(b)
	w := world{s.Client(), setClock, 1000, 1, time.Second}
	forever := func(n, count int) []engine.Request {
		requests := make([]engine.Request, count)
		for i := range requests {
			requests[i] = engine.Request{N: n, MaxWait: engine.Forever}
		}
		return requests
	}
	for _, c := range []struct {
		name    string
		quota   engine.Quota
		queued  int
		step    time.Duration // between two runs
		request []engine.Request
		back    bool
	}{
		{"one per interval", engine.Quota{Permits: 1, Per: time.Second}, 3, time.Second, forever(1, 1), false},
		{
			"1e3 permits spread",
			engine.Quota{Permits: 1000, Per: time.Second},
			3, 1100 * time.Microsecond, forever(1, 1), false,
		},
		{
			"1e6 permits spread",
			engine.Quota{Permits: 1_000_000, Per: time.Second},
			3, 1100 * time.Microsecond, forever(100, 1), false,
		},
		{
			"64 equal, ample quota",
			engine.Quota{Permits: 1_000_000, Per: time.Second},
			3, time.Millisecond, forever(1, 64), false,
		},
		{
			"64 equal, one per interval",
			engine.Quota{Permits: 1, Per: time.Second},
			3, 64 * time.Second, forever(1, 64), false,
		},
		{
			"1000 queued",
			engine.Quota{Permits: 10, Per: time.Second},
			1000, 100 * time.Millisecond, forever(1, 1), false,
		},
		{
			"100000 queued",
			engine.Quota{Permits: 10, Per: time.Second},
			100_000, 100 * time.Millisecond, forever(1, 1), false,
		},
		{
			"129 moments a window and a queue",
			engine.Quota{Permits: 258, Per: 129 * time.Second, Burst: 2},
			1000, 500 * time.Millisecond, forever(1, 1), false,
		},
		{
			"100 cancels of full tracks",
			engine.Quota{Permits: 258, Per: 129 * time.Second, Burst: 2},
			3000, time.Second, forever(1, 100), true,
		},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, at := w.queue(b, c.quota)
			queued(b, f, c.queued, 1)
			now := time.Duration(0)
			var micros, calls float64
			for b.Loop() {
				now += c.step
				at(now)
				var back []engine.Grant
				if c.back {
					for _, a := range take(b, f, c.request...) {
						back = append(back, a.Grant)
					}
				}
				before, count := scriptTime(b, f)
				if c.back {
					giveBack(b, f, back...)
				} else {
					_, err := f.Take(b.Context(), c.request)
					require.NoError(b, err)
				}
				after, counted := scriptTime(b, f)
				micros, calls = micros+after-before, calls+counted-count
			}
			b.ReportMetric(micros/calls, "script-µs/run")
		})
	}
}
