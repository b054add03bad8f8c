package speed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// memory are rows of callers that sleep, and of limiters that nobody calls.
var memory = []row{
	{
		"asleep", "callers asleep", "goroutines in time.Sleep", 0,
		[]wanted{{"heap and stack: ", "bytes each", beyondAtMost(1024)}},
		func(_ context.Context, b *bed) (sides, error) { return sides{b.asleep(b.sleep), b.asleep(b.wait)}, nil },
	},
	{
		"idle", "idle limiters", "", 0,
		[]wanted{
			{"new: ", "bytes each", Goal{}},
			{"used once: ", "bytes each", Goal{}},
			{"goroutines added: ", "", oursAtMost(0)},
		},
		func(_ context.Context, b *bed) (sides, error) { return sides{ours: b.idle}, nil },
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

// idle is what limiters cost while nobody calls: new ones, and used ones. What
// they leave in Redis expires within a second.
func (b *bed) idle(ctx context.Context) ([]float64, error) {
	connect := func(int) error { return b.rdb.Ping(ctx).Err() }
	if err := together(sixtyFour, connect); err != nil {
		return nil, err
	}
	limiters := make([]fairlimit.Limiter, b.Limiters)
	names := make([]string, b.Limiters)
	prefix := b.name("idle")
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	before, goroutines := inUse(), runtime.NumGoroutine()
	for i := range limiters {
		var err error
		if limiters[i], err = b.limiter(names[i], every(1, time.Second)); err != nil {
			return nil, err
		}
	}
	fresh := inUse()
	err := together(sixtyFour, func(hand int) (err error) {
		for i := hand; i < len(limiters); i += sixtyFour {
			err = errors.Join(err, limiters[i].Wait(ctx))
		}
		return err
	})
	used := inUse()
	added := runtime.NumGoroutine() - goroutines
	runtime.KeepAlive(limiters)
	return []float64{each(before, fresh, b.Limiters), each(before, used, b.Limiters), float64(added)}, err
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
