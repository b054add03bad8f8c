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
	Bursts: true, Ceils: true,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		r := &redisRate{limiter: redis_rate.NewLimiter(rdb), now: now}
		if l.Ceiling.Permits > 0 {
			r.keys = append(r.keys, redisRateKey{name + ":" + l.Flow, redisRateLimit(l.Ceiling)})
		}
		r.keys = append(r.keys, redisRateKey{name, redisRateLimit(l.Quota)})
		return r, nil
	},
}

func redisRateLimit(q scenario.Quota) redis_rate.Limit {
	return redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per}
}

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit. If clients have
// a ceiling, each has a key of its own, and the one for all comes after it.
type redisRate struct {
	limiter *redis_rate.Limiter
	keys    []redisRateKey
	now     func() time.Duration
}

type redisRateKey struct {
	name  string
	limit redis_rate.Limit
}

func (r *redisRate) Acquire(ctx context.Context, n int) (turn *measure.Turn, err error) {
	for _, key := range r.keys {
		if turn, err = r.acquire(ctx, key, n); err != nil {
			return nil, err
		}
	}
	return turn, nil
}

func (r *redisRate) acquire(ctx context.Context, key redisRateKey, n int) (*measure.Turn, error) {
	for {
		sent := r.now()
		result, err := r.limiter.AllowN(ctx, key.name, key.limit, n)
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
