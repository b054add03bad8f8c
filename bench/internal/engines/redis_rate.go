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
	ByHand: pausedByHand,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		return &redisRate{limiter: redis_rate.NewLimiter(rdb), name: name, now: now, limit: limitOf(l.Quota)}, nil
	},
	Keys: func(name string) []string { return []string{"rate:" + name} },
}

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit.
type redisRate struct {
	limiter *redis_rate.Limiter
	name    string
	limit   redis_rate.Limit
	now     func() time.Duration
}

func limitOf(q scenario.Quota) redis_rate.Limit {
	return redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per}
}

func (r *redisRate) Acquire(ctx context.Context, _, n int) (*measure.Turn, error) {
	var turn measure.Turn
	for {
		turn.Sent = r.now()
		result, err := r.limiter.AllowN(ctx, r.name, r.limit, n)
		turn.Replied = r.now()
		turn.First = cmp.Or(turn.First, turn.Replied)
		switch {
		case err != nil:
			return nil, err
		case result.Allowed > 0:
			return &turn, nil
		}
		if err := clock.Sleep(ctx, result.RetryAfter); err != nil {
			return nil, err
		}
	}
}
