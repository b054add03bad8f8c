package speed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/bench/internal/monotime"
	"github.com/fairlimit/fairlimit/window"
)

// calls is how often scripts run for each of many callers of one process that
// come at once and find nothing left.
func calls(ctx context.Context, b *bed) ([]Figure, error) {
	quota := fairlimit.Quota{Permits: max(1, b.Burst/2), Per: 500 * time.Millisecond}
	ours, err := b.limiter(quota)
	if err != nil {
		return nil, err
	}
	other, err := b.limiter(quota, fairlimit.WithEngine(window.New))
	if err != nil {
		return nil, err
	}
	engine, _ := engines.Named("redis_rate")
	asked := load.Load{Quota: load.Quota{Permits: quota.Permits, Per: quota.Per}}
	peer, err := engine.Open(b.rdb, b.name("peer"), asked, monotime.Now)
	if err != nil {
		return nil, err
	}
	asking := func(ctx context.Context) error { _, err := peer.Acquire(ctx, 0, 1); return err }

	all, err := allInTurn(ctx, max(1, b.Rounds/2),
		b.rush(quota, other.Wait), b.rush(quota, asking), b.rush(quota, ours.Wait))
	if err != nil {
		return nil, err
	}
	figure := Figure{What: fmt.Sprintf("Redis calls a grant, %d callers at once", b.Burst)}
	return []Figure{
		figure.beside("window", all.pairs(0, 2)).against(oursAtMost(0.1)),
		figure.beside("redis_rate, asking again after RetryAfter", all.pairs(1, 2)).against(oursAtMost(0.1)),
	}, nil
}

// rush takes the whole quota and then lets the callers come at once. It counts
// the runs of scripts for each of them.
func (b *bed) rush(quota fairlimit.Quota, wait func(context.Context) error) measure {
	return func(ctx context.Context) (float64, error) {
		if err := atOnce(ctx, quota.Permits, wait); err != nil {
			return 0, err
		}
		s, err := b.during(ctx, func() error { return atOnce(ctx, b.Burst, wait) })
		return s.Runs / float64(b.Burst), err
	}
}

// atOnce calls so many times at once.
func atOnce(ctx context.Context, callers int, call func(context.Context) error) error {
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { errs[i] = call(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
