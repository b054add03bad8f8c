package engines

import (
	"cmp"
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/bench/internal/metrics"
)

var redisRateEngine = Engine{
	Name: "redis_rate",
	About: "go-redis/redis_rate in the loop that people write around it: " +
		"not allowed, so sleep RetryAfter and ask again",
	Bursts: true,
	Open: func(rdb redis.UniversalClient, name string, l load.Load, _ func() time.Duration) (Acquirer, error) {
		q := l.Quota
		return &redisRate{
			limiter: redis_rate.NewLimiter(rdb),
			name:    name,
			limit:   redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per},
		}, nil
	},
	Keys: func(name string) []string { return []string{"rate:" + name} },
}

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit.
type redisRate struct {
	limiter *redis_rate.Limiter
	name    string
	limit   redis_rate.Limit
}

func (r *redisRate) Acquire(ctx context.Context, _, n int) (*metrics.Turn, error) {
	for {
		result, err := r.limiter.AllowN(ctx, r.name, r.limit, n)
		if err != nil || result.Allowed > 0 {
			return nil, err
		}
		if err := doze(ctx, result.RetryAfter); err != nil {
			return nil, err
		}
	}
}

// doze sleeps, or returns why not.
func doze(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
