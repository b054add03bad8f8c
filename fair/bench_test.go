package fair

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		quota  string
		queued int
		step   time.Duration // between two runs
		n      int           // permits of a request
		count  int           // requests
		back   bool
	}{
		{"one per interval", "1/1s", 3, time.Second, 1, 1, false},
		{"1e3 permits spread", "1000/1s", 3, 1100 * time.Microsecond, 1, 1, false},
		{"1e6 permits spread", "1000000/1s", 3, 1100 * time.Microsecond, 100, 1, false},
		{"64 equal, ample quota", "1000000/1s", 3, ms, 1, 64, false},
		{"64 equal, one per interval", "1/1s", 3, 64 * time.Second, 1, 64, false},
		{"1000 queued", "10/1s", 1000, 100 * ms, 1, 1, false},
		{"100000 queued", "10/1s", 100_000, 100 * ms, 1, 1, false},
		{"129 moments a window and a queue", "258/129s burst 2", 1000, 500 * ms, 1, 1, false},
		{"100 cancels of full tracks", "258/129s burst 2", 3000, time.Second, 1, 100, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, at := w.queue(b, quotas(b, c.quota)...)
			queued(b, f, c.queued, 1)
			now := time.Duration(0)
			var micros, calls float64
			for b.Loop() {
				now += c.step
				at(now)
				before, count := scriptTime(b, f)
				grants := queued(b, f, c.count, c.n)
				if c.back {
					before, count = scriptTime(b, f)
					giveBack(b, f, grants...)
				}
				after, counted := scriptTime(b, f)
				micros, calls = micros+after-before, calls+counted-count
			}
			b.ReportMetric(micros/calls, "script-µs/run")
		})
	}
}
