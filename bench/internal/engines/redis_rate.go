package engines

import (
	"cmp"
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

var redisRateEngine = Engine{
	Name: "redis_rate",
	About: "go-redis/redis_rate in the loop that people write around it: " +
		"not allowed, so sleep RetryAfter and ask again",
	Bursts: true,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		limit := redis_rate.Limit{
			Rate: l.Quota.Permits, Burst: cmp.Or(l.Quota.Burst, l.Quota.Permits), Period: l.Quota.Per,
		}
		return &redisRate{redis_rate.NewLimiter(rdb), name, limit, now}, nil
	},
}

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit.
type redisRate struct {
	limiter *redis_rate.Limiter
	name    string
	limit   redis_rate.Limit
	now     func() time.Duration
}

func (r *redisRate) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	for {
		sent := r.now()
		result, err := r.limiter.AllowN(ctx, r.name, r.limit, n)
		switch {
		case err != nil:
			return nil, err
		case result.Allowed > 0:
			return &measure.Turn{Permits: n, Sent: sent, Replied: r.now()}, nil
		}
		if err := clock.Sleep(ctx, result.RetryAfter); err != nil {
			return nil, err
		}
	}
}
