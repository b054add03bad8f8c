package speed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/fairlimit/fairlimit"
)

// idle is what limiters cost while nobody calls: new ones, and used ones.
func idle(ctx context.Context, b *bed) ([]Figure, error) {
	connect := func(ctx context.Context) error { return b.rdb.Ping(ctx).Err() }
	if err := atOnce(ctx, hands, connect); err != nil {
		return nil, err
	}
	prefix := b.name("idle")
	limiters := make([]fairlimit.Limiter, b.Limiters)
	names := make([]string, b.Limiters)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	before, goroutines := memory(), runtime.NumGoroutine()
	for i := range limiters {
		limiter, err := fairlimit.New(b.rdb, names[i], fairlimit.PerSecond(1))
		if err != nil {
			return nil, err
		}
		limiters[i] = limiter
	}
	fresh := memory()
	if err := once(ctx, limiters); err != nil {
		return nil, err
	}
	used := memory()
	added := runtime.NumGoroutine() - goroutines
	runtime.KeepAlive(limiters)

	all := grouped(int64(b.Limiters))
	size := func(what string, m runtime.MemStats) Figure {
		return Figure{
			What: all + " idle limiters, " + what, Unit: "bytes each",
			Ours: each64(before.HeapAlloc, m.HeapAlloc, b.Limiters),
		}
	}
	threads := Figure{What: all + " idle limiters, goroutines added", Ours: float64(added)}
	return []Figure{size("new", fresh), size("used once", used), threads.against(oursAtMost(0))}, nil
}

// hands use the limiters.
const hands = 64

// once calls each limiter one time. What they leave in Redis expires within a
// second.
func once(ctx context.Context, limiters []fairlimit.Limiter) error {
	errs := make([]error, hands)
	var all sync.WaitGroup
	for hand := range hands {
		all.Go(func() {
			for i := hand; i < len(limiters) && errs[hand] == nil; i += hands {
				errs[hand] = limiters[i].Wait(ctx)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
