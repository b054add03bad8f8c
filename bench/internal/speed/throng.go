package speed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/internal/clock"
)

// phases of a throng: calls count that end while it is counting.
const (
	warming int32 = iota
	counting
	over
)

type call func(context.Context) error

// together calls n times at once.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// throng is callers that call again as soon as they got through.
type throng struct {
	callers []call // what each of them calls
	phase   atomic.Int32
	calls   atomic.Int64

	mu   sync.Mutex
	took []int64 // ns, of each call that counts, if they are timed
	err  error
}

// run warms up, counts for so long, and returns for how long it did. All
// callers are home when it returns.
func (t *throng) run(ctx context.Context, timed bool, warmUp, count time.Duration) (time.Duration, error) {
	var callers sync.WaitGroup
	for _, call := range t.callers {
		callers.Go(func() { t.caller(ctx, call, timed) })
	}
	_ = clock.Sleep(ctx, warmUp)
	t.phase.Store(counting)
	began := time.Now()
	_ = clock.Sleep(ctx, count)
	t.phase.Store(over)
	counted := time.Since(began)
	callers.Wait()
	return counted, errors.Join(ctx.Err(), t.err)
}

func (t *throng) caller(ctx context.Context, call call, timed bool) {
	var calls int64
	var took []int64
	var err error
	var began time.Time
	for before := t.phase.Load(); before != over && err == nil; {
		if timed {
			began = time.Now()
		}
		err = call(ctx)
		if timed && before == counting {
			took = append(took, int64(time.Since(began)))
		}
		after := t.phase.Load()
		if after == counting {
			calls++
		}
		before = after
	}
	t.calls.Add(calls)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took...)
	if t.err == nil {
		t.err = err
	}
}

// rate is how many calls a second the callers got through. Where the machine is
// so busy that nobody did, they are given longer.
func rate(ctx context.Context, callers []call, warmUp, count time.Duration) (float64, error) {
	for ; ; count *= 2 {
		t := throng{callers: callers}
		counted, err := t.run(ctx, false, warmUp, count)
		if calls := t.calls.Load(); calls > 0 || err != nil {
			return float64(calls) / counted.Seconds(), err
		}
	}
}
