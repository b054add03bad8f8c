package engines

import (
	"cmp"
	"context"

	"github.com/go-redis/redis_rate/v10"

	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit.
type redisRate struct {
	Setup
	limiter *redis_rate.Limiter
}

func openRedisRate(s Setup) (Acquirer, error) {
	return redisRate{s, redis_rate.NewLimiter(s.Redis)}, nil
}

func (r redisRate) Acquire(ctx context.Context, n int) error { return r.wait(ctx, "", r.Quota, n) }

// Take has a key for each unit.
func (r redisRate) Take(ctx context.Context, input, output int) (Settle, error) {
	per := r.Quota.Per
	if err := r.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := r.wait(ctx, ":input", scenario.Quota{Permits: r.Input, Per: per}, input); err != nil {
		return nil, err
	}
	return nil, r.wait(ctx, ":output", scenario.Quota{Permits: r.Output, Per: per}, output)
}

// wait asks until the answer is yes, and sleeps in between for as long as it is
// told.
func (r redisRate) wait(ctx context.Context, unit string, q scenario.Quota, n int) error {
	limit := redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per}
	for {
		result, err := r.limiter.AllowN(ctx, r.Name+unit, limit, n)
		if err != nil || result.Allowed > 0 {
			return err
		}
		if err := clock.Sleep(ctx, result.RetryAfter); err != nil {
			return err
		}
	}
}
