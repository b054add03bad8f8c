package speed

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/clock"
)

const (
	taskSleepers = "callers asleep in Wait"
	taskTimers   = "goroutines in time.Sleep"
)

// night is longer than anybody watches.
const night = time.Hour

// rest is what sleepers cost a process.
type rest struct {
	Heap, Stack float64 // bytes each
	CPU         float64 // ms in a second, of all of them
	CPUKnown    bool
}

// asleep is what callers that wait for their slot cost, beside goroutines that
// sleep.
func asleep(ctx context.Context, b *bed) ([]Figure, error) {
	j := job{Redis: b.job.Redis, Scale: b.Scale}
	var ours, timers rest
	j.Task = taskTimers
	if err := spawn(ctx, j, &timers); err != nil {
		return nil, err
	}
	j.Task = taskSleepers
	if err := spawn(ctx, j, &ours); err != nil {
		return nil, err
	}
	crowd := grouped(int64(b.Sleepers))
	beyond := ours.Heap + ours.Stack - timers.Heap - timers.Stack
	size := Figure{
		What: fmt.Sprintf("%s callers asleep, beyond a goroutine in time.Sleep", crowd),
		Unit: "bytes each", Ours: beyond,
		Note: fmt.Sprintf("%.0f bytes of heap and %.0f of stack each, in time.Sleep %.0f and %.0f",
			ours.Heap, ours.Stack, timers.Heap, timers.Stack),
	}
	figures := []Figure{size.against(oursAtMost(1024))}
	if ours.CPUKnown {
		cpu := Figure{What: crowd + " callers asleep, CPU", Unit: "ms a second", Ours: ours.CPU}
		figures = append(figures, cpu.besideOne(crowd+" goroutines in time.Sleep", timers.CPU))
	}
	return figures, nil
}

// sleepers is what they cost this process once all of them sleep. They are left
// asleep: the process ends.
func (b *bed) sleepers(ctx context.Context, put func(context.Context) error) (r rest, err error) {
	before := memory()
	if err := put(ctx); err != nil {
		return r, err
	}
	after := memory()
	r.Heap = each64(before.HeapAlloc, after.HeapAlloc, b.Sleepers)
	r.Stack = each64(before.StackInuse, after.StackInuse, b.Sleepers)
	cpu, known := cpuTime()
	began := time.Now()
	_ = clock.Sleep(ctx, b.Rest)
	now, _ := cpuTime()
	r.CPU, r.CPUKnown = float64(now-cpu)/1e6/time.Since(began).Seconds(), known
	return r, ctx.Err()
}

// waits puts callers to sleep on one name. All of them sleep when the queue is
// as long as it gets.
func (b *bed) waits(ctx context.Context) error {
	limiter, err := b.limiter(fairlimit.Every(night))
	if err != nil {
		return err
	}
	if err := limiter.Wait(ctx); err != nil {
		return err
	}
	woken := make(chan error, 1)
	sleep := func() {
		err := limiter.Wait(ctx)
		select {
		case woken <- err:
		default: // one is enough
		}
	}
	for range b.Sleepers {
		go sleep()
	}
	for asleep := false; ; {
		select {
		case err := <-woken:
			return fmt.Errorf("a caller that was to sleep did not: %v", err)
		case <-time.After(100 * time.Millisecond): // the last time, for the answers to arrive
		}
		if asleep {
			return nil
		}
		status, err := limiter.Status(ctx)
		if err != nil {
			return err
		}
		asleep = status.Queued >= b.Sleepers
	}
}

// sleeps puts goroutines to sleep.
func (b *bed) sleeps(ctx context.Context) error {
	for range b.Sleepers {
		go time.Sleep(night)
	}
	_ = clock.Sleep(ctx, 100*time.Millisecond)
	return ctx.Err()
}

// memory is what is in use, garbage aside. What is collected in one run and
// only swept in the next is not counted.
func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

func each64(before, after uint64, n int) float64 {
	return (float64(after) - float64(before)) / float64(n)
}
