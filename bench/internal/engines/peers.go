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
	limiter *redis_rate.Limiter
	limits  []limit
}

// limit is one key of redis_rate.
type limit struct {
	key string
	redis_rate.Limit
}

// openRedisRate has a key for calls, and then one for each further unit.
func openRedisRate(s Setup) (Acquirer, error) {
	r := redisRate{limiter: redis_rate.NewLimiter(s.Redis)}
	add := func(suffix string, q scenario.Quota) {
		if q.Permits > 0 {
			of := redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per}
			r.limits = append(r.limits, limit{s.Name + suffix, of})
		}
	}
	add("", s.Quota)
	add(":input", scenario.Quota{Permits: s.Input, Per: s.Quota.Per})
	add(":output", scenario.Quota{Permits: s.Output, Per: s.Quota.Per})
	return r, nil
}

func (r redisRate) Acquire(ctx context.Context, n int) error {
	return r.wait(ctx, r.limits[0], n)
}

// Take is for three units.
func (r redisRate) Take(ctx context.Context, input, output int) (Settle, error) {
	for i, n := range []int{1, input, output} {
		if err := r.wait(ctx, r.limits[i], n); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// wait asks until the answer is yes, and sleeps in between for as long as it is
// told.
func (r redisRate) wait(ctx context.Context, of limit, n int) error {
	for {
		result, err := r.limiter.AllowN(ctx, of.key, of.Limit, n)
		if err != nil || result.Allowed > 0 {
			return err
		}
		if err := clock.Sleep(ctx, result.RetryAfter); err != nil {
			return err
		}
	}
}
