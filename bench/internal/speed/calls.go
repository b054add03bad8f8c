package speed

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/window"
)

// calls are how often scripts run for each of many callers of one process that
// come at once and find nothing left.
var calls = []row{
	{
		group: "calls", what: "scripts a grant, 200 callers at once", yardstick: "window", rounds: 0.5,
		figures: []wanted{{goal: oursAtMost(0.1)}}, sides: metered(runs, waitsOf(window.New), waitsOf(fair.New)),
	},
	{
		group: "calls", what: "scripts a grant, 200 callers at once", yardstick: redisRate + ", asking again", rounds: 0.5,
		figures: []wanted{{goal: oursAtMost(0.1)}}, sides: metered(runs, retries, waitsOf(fair.New)),
	},
}

// scarce is a quota for half of those who come at once.
func (b *bed) scarce() engine.Quota { return every(max(1, b.Burst/2), 500*time.Millisecond) }

func waitsOf(engine engine.Builder) callers {
	return func(_ context.Context, b *bed) ([]call, error) {
		limiter, err := b.limiter(b.scarce(), fairlimit.WithEngine(engine))
		if err != nil {
			return nil, err
		}
		return []call{limiter.Wait}, nil
	}
}

// retries is redis_rate in a loop that asks again after RetryAfter.
func retries(_ context.Context, b *bed) ([]call, error) {
	peer, _ := engines.Named(redisRate)
	limiter, err := peer.Open(b.rdb, b.name("peer"), scenario.Load{Quota: scenario.Quota(b.scarce())}, measure.Now)
	return []call{func(ctx context.Context) error {
		_, err := limiter.Acquire(ctx, 0, 1)
		return err
	}}, err
}

// runs takes the whole quota, lets callers come at once, and counts the runs of
// scripts for each of them.
func runs(b *bed, calls []call) probe {
	return func(ctx context.Context) ([]float64, error) {
		call := func(int) error { return calls[0](ctx) }
		if err := together(b.scarce().Permits, call); err != nil {
			return nil, err
		}
		runs, _, err := b.served(ctx, func() error { return together(b.Burst, call) })
		return []float64{runs / float64(b.Burst)}, err
	}
}
