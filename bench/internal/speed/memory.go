package speed

import (
	"context"
	"runtime"
	"time"

	"github.com/fairlimit/fairlimit/internal/clock"
)

// memory is what callers take up while they sleep.
var memory = []row{
	{
		"asleep", "callers asleep", "goroutines in time.Sleep", 0,
		[]wanted{{"heap and stack: ", "bytes each", beyondAtMost(1024)}},
		func(_ context.Context, b *bed) (sides, error) { return sides{b.asleep(b.sleep), b.asleep(b.wait)}, nil },
	},
}

// night is longer than anybody watches.
const night = time.Hour

// asleep is what each of those that put sends to sleep takes up. They are left
// asleep: the process ends.
func (b *bed) asleep(put func(context.Context) error) probe {
	return func(ctx context.Context) ([]float64, error) {
		before := inUse()
		err := put(ctx)
		return []float64{each(before, inUse(), b.Sleepers)}, err
	}
}

// wait puts callers to sleep on one name. All of them sleep when the queue is as
// long as it gets.
func (b *bed) wait(ctx context.Context) error {
	limiter, err := b.limiter(b.name("asleep"), every(1, night))
	if err != nil {
		return err
	}
	if err := limiter.Wait(ctx); err != nil {
		return err
	}
	for range b.Sleepers {
		go limiter.Wait(context.WithoutCancel(ctx))
	}
	for {
		status, err := limiter.Status(ctx)
		if err != nil {
			return err
		}
		err = clock.Sleep(ctx, 100*time.Millisecond) // the last time, for the answers to arrive
		if err != nil || status.Queued >= b.Sleepers {
			return err
		}
	}
}

// sleep puts goroutines to sleep.
func (b *bed) sleep(ctx context.Context) error {
	for range b.Sleepers {
		go time.Sleep(night)
	}
	return clock.Sleep(ctx, 100*time.Millisecond)
}

// inUse is the memory in use, garbage aside. What is collected in one run and
// only swept in the next is not counted.
func inUse() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// each is the heap and the stacks that came about, in bytes for each of n.
func each(before, after runtime.MemStats, n int) float64 {
	bytes := func(m runtime.MemStats) float64 { return float64(m.HeapAlloc) + float64(m.StackInuse) }
	return (bytes(after) - bytes(before)) / float64(n)
}
