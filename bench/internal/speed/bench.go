package speed

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
)

// run is a benchmark of one side: all callers call at once, until b has enough
// calls.
func run(ctx context.Context, b *testing.B, rdb *redis.Client, of side) (err error) {
	name := "speed:" + rand.Text()
	defer func() { err = errors.Join(err, backend.Remove(context.WithoutCancel(ctx), rdb, name)) }()
	calls, err := of(rdb, name)
	if err != nil {
		return err
	}
	if err := each(ctx, calls, len(calls)); err != nil { // scripts are loaded
		return err
	}
	before, err := backend.ServedBy(ctx, rdb)
	if err != nil {
		return err
	}
	b.ResetTimer()
	err = each(ctx, calls, b.N)
	b.StopTimer()
	after, failed := backend.ServedBy(ctx, rdb)
	served := after.Since(before)
	b.ReportMetric(0, "ns/op") // what follows says more
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), perCall)
	b.ReportMetric(served.Micros/max(1, served.Runs), perScript)
	b.ReportMetric(served.Micros/float64(b.N), perGrant)
	return errors.Join(err, failed)
}

// each has all callers call at once, until there are n calls.
func each(ctx context.Context, calls []call, n int) error {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, len(calls))
	for i, c := range calls {
		all.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = c(ctx)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
