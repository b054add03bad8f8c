package speed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// allocations counts what a call allocates while so many callers wait together,
// everything in the process included: the client, too.
func allocations(ctx context.Context, b *bed) ([]Figure, error) {
	limiter, err := b.limiter(ample)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context) error { return b.rdb.Ping(ctx).Err() }
	var figures []Figure
	for _, callers := range []int{sixtyFour, b.Callers} {
		var of [2][]float64
		for range b.Rounds {
			for side, call := range []func(context.Context) error{ping, limiter.Wait} {
				n, err := allocated(ctx, callers, max(1, b.Calls*sixtyFour/callers), call)
				if err != nil {
					return nil, err
				}
				of[side] = append(of[side], n)
			}
		}
		figure := Figure{What: fmt.Sprintf("allocations a Wait, %d callers", callers), Ours: quantile(of[1], 0.5)}
		figure = figure.besideOne(fmt.Sprintf("a PING by %d goroutines", callers), quantile(of[0], 0.5))
		figures = append(figures, figure.against(oursAtMost(1)))
	}
	return figures, nil
}

// allocated is the number of objects that a call allocates on average in the
// steady state, after as many calls to warm up.
func allocated(ctx context.Context, callers, calls int, call func(context.Context) error) (float64, error) {
	var before, after runtime.MemStats
	var mu sync.Mutex
	var failed error
	var warm, all sync.WaitGroup
	gate := make(chan struct{})
	some := func() {
		for range calls {
			if err := call(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
				return
			}
		}
	}
	warm.Add(callers)
	for range callers {
		all.Go(func() {
			some()
			warm.Done()
			<-gate
			some()
		})
	}
	warm.Wait()
	runtime.GC()
	runtime.ReadMemStats(&before)
	close(gate)
	all.Wait()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(callers*calls), failed
}
