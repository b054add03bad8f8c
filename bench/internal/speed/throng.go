package speed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/internal/clock"
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

// phases of a throng: calls count that end while it is counting.
const (
	warming int32 = iota
	counting
	over
)

// throng is callers that call again as soon as they got through.
type throng struct {
	phase atomic.Int32
	calls atomic.Int64
	took  [][]int64 // ns, of the calls of each that count, if they are timed
}

// run has them call for warmUp, counts for so long, and returns for how long it
// did. All callers are home when it returns.
func (t *throng) run(ctx context.Context, callers []call, timed bool, warmUp, count time.Duration) (time.Duration, error) {
	t.took = make([][]int64, len(callers))
	var counted time.Duration
	err := together(len(callers)+1, func(i int) error {
		if i < len(callers) {
			return t.caller(ctx, callers[i], timed, &t.took[i])
		}
		_ = clock.Sleep(ctx, warmUp)
		t.phase.Store(counting)
		began := time.Now()
		_ = clock.Sleep(ctx, count)
		t.phase.Store(over)
		counted = time.Since(began)
		return ctx.Err()
	})
	return counted, err
}

func (t *throng) caller(ctx context.Context, call call, timed bool, took *[]int64) (err error) {
	var calls int64
	var began time.Time
	for before := t.phase.Load(); before != over && err == nil; {
		if timed {
			began = time.Now()
		}
		err = call(ctx)
		if timed && before == counting {
			*took = append(*took, int64(time.Since(began)))
		}
		before = t.phase.Load()
		if before == counting {
			calls++
		}
	}
	t.calls.Add(calls)
	return err
}

// rate is how many calls a second the callers got through. Where the machine is
// so busy that nobody did, they are given longer.
func rate(ctx context.Context, callers []call, warmUp, count time.Duration) (float64, error) {
	for ; ; count *= 2 {
		var t throng
		counted, err := t.run(ctx, callers, false, warmUp, count)
		if calls := t.calls.Load(); calls > 0 || err != nil {
			return float64(calls) / counted.Seconds(), err
		}
	}
}

// slowest is the time in µs that one call in a hundred took or more.
func slowest(ctx context.Context, callers []call, warmUp, count time.Duration) (float64, error) {
	var t throng
	_, err := t.run(ctx, callers, true, warmUp, count)
	return float64(quantile(slices.Concat(t.took...), 0.99)) / 1e3, err
}
