package speed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit"
)

// settleRows are how many scripts Redis runs for a turn that is settled. The
// goals are for callers who settle at once.
func settleRows() []row {
	of := func(callers int, goal float64) row {
		return row{
			"settle", fmt.Sprintf("script runs, a settled turn, %d at once", callers), "", 1, "", oursAtMost(goal),
			func(ctx context.Context, b *bed) (sides, error) {
				take, err := b.settles()
				return sides{ours: single(func(ctx context.Context) (float64, error) {
					each := max(1, b.Calls/8)
					s, err := b.served(ctx, func() error {
						return together(callers, func(int) error { return paced(ctx, each, 0, take) })
					})
					return s.Runs / float64(callers*each), err
				})}, err
			},
		}
	}
	return []row{of(1, 1.2), of(sixtyFour, 0.2)}
}

// settles takes a turn of a queue with a unit, and settles it.
func (b *bed) settles() (call, error) {
	quota := fairlimit.Quota{Permits: billion, Per: time.Second}
	queue, err := fairlimit.NewQueue(b.rdb, b.name(), quota, fairlimit.WithGuard(0),
		fairlimit.WithUnit("tokens", quota))
	return func(ctx context.Context) error {
		turn, err := queue.Take(ctx, fairlimit.Amounts{"tokens": 500})
		if err != nil {
			return err
		}
		return turn.Settle(ctx, fairlimit.Amounts{"tokens": rand.IntN(1000)})
	}, err
}
