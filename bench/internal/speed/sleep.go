package speed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// sleeping are rows of callers that wait, and of limiters that nobody calls.
var sleeping = []row{
	{
		group: "punctual", what: "Wait returns after its slot", yardstick: "time.Sleep after its time",
		figures: []wanted{
			{"p50: ", "ms", Goal{}},
			{"p99: ", "ms", oursAtMost(1.5)},
			{"max: ", "ms", Goal{}},
			{"early, calls: ", "", oursAtMost(0)},
		},
		sides: punctual,
	},
	{
		group: "asleep", what: "callers asleep", yardstick: "goroutines in time.Sleep",
		figures: []wanted{{"heap and stack: ", "bytes each", beyondAtMost(1024)}},
		sides: func(_ context.Context, b *bed) (sides, error) {
			asleep := func(task string) probe {
				return func(ctx context.Context) (values []float64, err error) {
					return values, spawn(ctx, job{Task: task, Redis: b.job.Redis, Scale: b.Scale}, &values)
				}
			}
			return sides{asleep(taskTimers), asleep(taskSleepers)}, nil
		},
	},
	{
		group: "idle", what: "idle limiters",
		figures: []wanted{
			{"new: ", "bytes each", Goal{}},
			{"used once: ", "bytes each", Goal{}},
			{"goroutines added: ", "", oursAtMost(0)},
		},
		sides: func(_ context.Context, b *bed) (sides, error) { return sides{ours: b.idle}, nil },
	},
}

// between two slots.
const between = 10 * time.Millisecond

// punctual is how long after its slot a call returns, in a process that does
// nothing else.
func punctual(ctx context.Context, b *bed) (sides, error) {
	w := &watch{}
	limiter, err := b.limiter(every(1, between), fairlimit.WithEngine(w.build))
	if err != nil {
		return sides{}, err
	}
	timers := func(context.Context) (late, early time.Duration, err error) {
		nap := between/2 + rand.N(between/2) // no whole number of ms
		due := time.Now().Add(nap)
		time.Sleep(nap)
		return time.Since(due), 0, nil
	}
	waits := func(ctx context.Context) (late, early time.Duration, err error) {
		err = limiter.Wait(ctx)
		return time.Since(w.latest), time.Until(w.earliest), err
	}
	return sides{b.lateness(timers), b.lateness(waits)}, limiter.Wait(ctx)
}

// lateness is how late the calls are, in ms, and how many are early.
func (b *bed) lateness(call func(context.Context) (late, early time.Duration, err error)) probe {
	return func(ctx context.Context) ([]float64, error) {
		var all []float64
		tooSoon := 0.0
		err := paced(ctx, b.Calls, 0, func(ctx context.Context) error {
			late, early, err := call(ctx)
			all = append(all, late.Seconds()*1e3)
			if early > 0 {
				tooSoon++
			}
			return err
		})
		return []float64{quantile(all, 0.5), quantile(all, 0.99), quantile(all, 1), tooSoon}, err
	}
}

// watch notes between which moments the slot of a process's only caller lies:
// what was answered, from when the question was sent, and from when the answer
// was there.
type watch struct{ earliest, latest time.Time }

func (w *watch) build(cfg engine.Config) (engine.Engine, error) {
	e, err := fair.New(cfg)
	return watched{e, w}, err
}

type watched struct {
	engine.Engine
	*watch
}

func (w watched) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	sent := time.Now()
	answers, err := w.Engine.Take(ctx, requests)
	if err == nil {
		w.earliest, w.latest = sent.Add(answers[0].Wait), time.Now().Add(answers[0].Wait)
	}
	return answers, err
}

const (
	taskSleepers = "callers asleep in Wait"
	taskTimers   = "goroutines in time.Sleep"

	night = time.Hour // longer than anybody watches
)

// asleep is what each of those that put sends to sleep takes up. They are left
// asleep: the process ends.
func (b *bed) asleep(ctx context.Context, put func(context.Context) error) ([]float64, error) {
	before := memory()
	err := put(ctx)
	return []float64{each(before, memory(), b.Sleepers)}, err
}

// waits puts callers to sleep on one name. All of them sleep when the queue is
// as long as it gets.
func (b *bed) waits(ctx context.Context) error {
	limiter, err := b.limiter(every(1, night))
	if err != nil {
		return err
	}
	if err := limiter.Wait(ctx); err != nil {
		return err
	}
	woken := make(chan error, b.Sleepers)
	for range b.Sleepers {
		go func() { woken <- limiter.Wait(ctx) }()
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
	before, goroutines := memory(), runtime.NumGoroutine()
	for i := range limiters {
		var err error
		if limiters[i], err = fairlimit.New(b.rdb, names[i], fairlimit.PerSecond(1), fairlimit.WithGuard(0)); err != nil {
			return nil, err
		}
	}
	fresh := memory()
	err := together(sixtyFour, func(hand int) (err error) {
		for i := hand; i < len(limiters); i += sixtyFour {
			err = errors.Join(err, limiters[i].Wait(ctx))
		}
		return err
	})
	used := memory()
	added := runtime.NumGoroutine() - goroutines
	runtime.KeepAlive(limiters)
	return []float64{each(before, fresh, b.Limiters), each(before, used, b.Limiters), float64(added)}, err
}

// memory is what is in use, garbage aside. What is collected in one run and
// only swept in the next is not counted.
func memory() (m runtime.MemStats) {
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
