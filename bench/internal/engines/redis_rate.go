package engines

import (
	"cmp"
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

var redisRateEngine = Engine{
	Name: "redis_rate",
	About: "go-redis/redis_rate in the loop that people write around it: " +
		"not allowed, so sleep RetryAfter and ask again",
	Bursts: true, Ceils: true, Tokens: true,
	Open: func(s Setup) (Acquirer, error) {
		return chained(s, func(key string, q scenario.Quota) (Acquirer, error) {
			limit := redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per}
			return &redisRate{redis_rate.NewLimiter(s.Redis), key, limit, s.Now}, nil
		})
	},
}

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit.
type redisRate struct {
	limiter *redis_rate.Limiter
	key     string
	limit   redis_rate.Limit
	now     func() time.Duration
}

func (r *redisRate) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	return poll(ctx, n, r.now, func() (bool, time.Duration, error) {
		result, err := r.limiter.AllowN(ctx, r.key, r.limit, n)
		if err != nil || result.Allowed > 0 {
			return true, 0, err
		}
		return false, result.RetryAfter, nil
	})
}

// poll asks until the answer is yes, and sleeps in between for as long as it is
// told. With a yes comes the wait until the turn.
func poll(
	ctx context.Context, n int, now func() time.Duration, ask func() (yes bool, wait time.Duration, err error),
) (*measure.Turn, error) {
	for {
		sent := now()
		yes, wait, err := ask()
		switch {
		case err != nil:
			return nil, err
		case yes:
			return &measure.Turn{Permits: n, Sent: sent, Replied: now(), Wait: wait}, nil
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}
