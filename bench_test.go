package fairlimit_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// These benchmarks are for people: what a limiter costs, beside what the same
// client and server cost on the same machine. In each round the limiter and its
// yardstick take turns, so that whatever else the machine does slows both; the
// median of the rounds is reported.

// ample is a quota that nobody exhausts: what is left is the way to the turn.
var ample = fairlimit.PerHour(1_000_000_000)

// stretch is how long one side of a round lasts.
const stretch = 100 * time.Millisecond

// endless never ends; it is the ctx of a program that waits for as long as it
// takes.
var endless = context.Background()

// contexts are the two kinds that a limiter tells apart: who cannot leave may
// ask in its own goroutine.
func contexts(b *testing.B, f func(b *testing.B, ctx context.Context)) {
	b.Run("ctx=endless", func(b *testing.B) { f(b, endless) })
	b.Run("ctx=cancellable", func(b *testing.B) { f(b, b.Context()) })
}

func rounds(b *testing.B, unit string, ratio func() float64) {
	ratio()
	var all []float64
	for b.Loop() {
		all = append(all, ratio())
	}
	slices.Sort(all)
	report(b, all[len(all)/2], unit)
}

// report reports nothing else: the time of a round says nothing.
func report(b *testing.B, value float64, unit string) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(value, unit)
}

// rate is how often a second callers together do what they do.
func rate(b *testing.B, callers int, do func() error) float64 {
	var (
		wg    sync.WaitGroup
		total atomic.Int64
		start = time.Now()
	)
	for range callers {
		wg.Go(func() {
			for time.Since(start) < stretch {
				for range 8 { // the clock costs as much as a tenth of a turn
					if err := do(); err != nil {
						b.Error(err)
						return
					}
				}
				total.Add(8)
			}
		})
	}
	wg.Wait()
	return float64(total.Load()) / time.Since(start).Seconds()
}

// latency is the time within which the given share of calls return.
func latency(b *testing.B, share float64, callers int, do func() error) float64 {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		all   []time.Duration
		start = time.Now()
	)
	for range callers {
		wg.Go(func() {
			var own []time.Duration
			for from := time.Since(start); from < stretch; {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				to := time.Since(start)
				own = append(own, to-from)
				from = to
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	wg.Wait()
	return quantile(all, share)
}

func quantile(all []time.Duration, share float64) float64 {
	slices.Sort(all)
	return float64(all[int(share*float64(len(all)-1))])
}

func waiting(l fairlimit.Limiter, ctx context.Context) func() error {
	return func() error { return l.Wait(ctx) }
}

func pinging(rdb *redis.Client) func() error {
	return func() error { return rdb.Ping(endless).Err() }
}

// scripting runs a script that does nothing.
func scripting(b *testing.B, rdb *redis.Client) func() error {
	sha, err := rdb.ScriptLoad(b.Context(), "return 1").Result()
	require.NoError(b, err)
	return func() error { return rdb.EvalSha(endless, sha, nil).Err() }
}

// BenchmarkWaitBy1024 compares how many turns 1024 callers get with how many
// PINGs 64 goroutines send: both is as much as one client does.
func BenchmarkWaitBy1024(b *testing.B) {
	rdb := redistest.Standalone(b)
	contexts(b, func(b *testing.B, ctx context.Context) {
		wait, ping := waiting(limiter(b, rdb, ample), ctx), pinging(rdb)
		rounds(b, "×PING", func() float64 { return rate(b, 1024, wait) / rate(b, 64, ping) })
	})
}

// BenchmarkWaitAlone compares the median time of a turn, nobody else about,
// with that of a script that does nothing.
func BenchmarkWaitAlone(b *testing.B) {
	rdb := redistest.Standalone(b)
	contexts(b, func(b *testing.B, ctx context.Context) {
		wait, script := waiting(limiter(b, rdb, ample), ctx), scripting(b, rdb)
		rounds(b, "×EVALSHA", func() float64 { return latency(b, 0.5, 1, wait) / latency(b, 0.5, 1, script) })
	})
}

// BenchmarkWaitBy64 compares the slowest hundredth of 64 callers' turns with
// the slowest hundredth of scripts that do nothing, 64 at a time.
func BenchmarkWaitBy64(b *testing.B) {
	rdb := redistest.Standalone(b)
	contexts(b, func(b *testing.B, ctx context.Context) {
		wait, script := waiting(limiter(b, rdb, ample), ctx), scripting(b, rdb)
		rounds(b, "×p99-of-EVALSHA",
			func() float64 { return latency(b, 0.99, 64, wait) / latency(b, 0.99, 64, script) })
	})
}

// BenchmarkAllocsPerWait counts what a turn allocates while 1024 callers
// combine, with the engine and the client.
func BenchmarkAllocsPerWait(b *testing.B) {
	rdb := redistest.Standalone(b)
	contexts(b, func(b *testing.B, ctx context.Context) {
		l := limiter(b, rdb, ample)
		const callers, each = 1024, 200
		var turns float64
		run := func() {
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range each {
						if err := l.Wait(ctx); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			turns += callers * each
		}
		run()
		turns = 0
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for b.Loop() {
			run()
		}
		runtime.ReadMemStats(&after)
		report(b, float64(after.Mallocs-before.Mallocs)/turns, "allocs/turn")
		report(b, float64(after.TotalAlloc-before.TotalAlloc)/turns, "B/turn")
	})
}

// settled is what the heap and the stacks hold once nothing is left to collect.
func settled() (heap, stacks float64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

// BenchmarkSleepers measures what each of 10,000 callers holds while it sleeps
// towards its turn, beside a goroutine that just waits.
func BenchmarkSleepers(b *testing.B) {
	const sleepers = 10_000
	rdb := redistest.Standalone(b)
	asleep := func(sleep func(ctx context.Context), until func(ctx context.Context) bool) (heap, stacks float64) {
		ctx, wake := context.WithCancel(b.Context())
		heapBefore, stacksBefore := settled()
		var wg sync.WaitGroup
		for range sleepers {
			wg.Go(func() { sleep(ctx) })
		}
		for !until(ctx) {
			time.Sleep(10 * time.Millisecond)
		}
		heap, stacks = settled()
		wake()
		wg.Wait()
		return (heap - heapBefore) / sleepers, (stacks - stacksBefore) / sleepers
	}
	var heap, stack float64
	for b.Loop() {
		l := limiter(b, rdb, fairlimit.Every(time.Hour))
		require.NoError(b, l.Wait(b.Context()))
		_, bare := asleep(func(ctx context.Context) { <-ctx.Done() },
			func(context.Context) bool { return runtime.NumGoroutine() > sleepers })
		heap, stack = asleep(func(ctx context.Context) { _ = l.Wait(ctx) }, func(ctx context.Context) bool {
			s, err := l.Status(ctx)
			require.NoError(b, err)
			return s.Queued == sleepers
		})
		stack -= bare
	}
	report(b, heap, "heap-B/sleeper")
	report(b, stack, "more-stack-B/sleeper")
}

// BenchmarkIdleLimiters measures what each of 100,000 limiters holds that
// nobody uses.
func BenchmarkIdleLimiters(b *testing.B) {
	const many = 100_000
	rdb := nowhere(b)
	limiters := make([]fairlimit.Limiter, many)
	var each, goroutines float64
	for b.Loop() {
		clear(limiters)
		before, _ := settled()
		running := runtime.NumGoroutine()
		for i := range limiters {
			var err error
			limiters[i], err = fairlimit.New(rdb, fmt.Sprint("idle", i), ample)
			require.NoError(b, err)
		}
		after, _ := settled()
		each, goroutines = (after-before)/many, float64(runtime.NumGoroutine()-running)
	}
	runtime.KeepAlive(limiters)
	report(b, each, "B/limiter")
	report(b, goroutines, "goroutines")
}

// BenchmarkLateness measures how long after its turn a caller returns that
// slept towards it. The turns of one who calls again at once are an interval
// apart, and the first lies after its call, so that what is measured is the way
// to Redis too long, never too short.
func BenchmarkLateness(b *testing.B) {
	const interval, turns = 7300 * time.Microsecond, 100
	rdb := redistest.Standalone(b)
	var late []time.Duration
	for b.Loop() {
		l := limiter(b, rdb, fairlimit.Every(interval))
		start := time.Now()
		for turn := range turns {
			require.NoError(b, l.Wait(b.Context()))
			if turn > 0 {
				late = append(late, time.Since(start)-time.Duration(turn)*interval)
			}
		}
	}
	report(b, quantile(late, 0)/1e6, "least-ms-late")
	report(b, quantile(late, 0.5)/1e6, "median-ms-late")
	report(b, quantile(late, 0.99)/1e6, "p99-ms-late")
}
