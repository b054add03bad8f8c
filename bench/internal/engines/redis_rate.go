package engines

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
	"github.com/fairlimit/fairlimit/bench/internal/load"
)

var redisRateEngine = Engine{
	Name: "redis_rate",
	About: "go-redis/redis_rate in the loop that people write around it: " +
		"not allowed, so sleep RetryAfter and ask again",
	Bursts: true,
	ByHand: map[string]string{"pause": pausedByHand, "quota": quotaByHand},
	Open: func(rdb redis.UniversalClient, name string, l load.Load, now func() time.Duration) (Acquirer, error) {
		q := l.Quota
		return &redisRate{
			limiter: redis_rate.NewLimiter(rdb),
			name:    name,
			now:     now,
			limit:   limitOf(q),
		}, nil
	},
	Keys: func(name string) []string { return []string{"rate:" + name} },
}

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit.
type redisRate struct {
	limiter *redis_rate.Limiter
	name    string
	now     func() time.Duration

	mu    sync.Mutex
	limit redis_rate.Limit
}

var (
	_ Resetter = (*redisRate)(nil)
	_ Requoter = (*redisRate)(nil)
)

func limitOf(q load.Quota) redis_rate.Limit {
	return redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per}
}

// Reset is that of redis_rate.
func (r *redisRate) Reset(ctx context.Context) error { return r.limiter.Reset(ctx, r.name) }

// SetQuota is for the next to ask, in this process.
func (r *redisRate) SetQuota(_ context.Context, q load.Quota) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limitOf(q)
	return nil
}

func (r *redisRate) rule() redis_rate.Limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limit
}

func (r *redisRate) Acquire(ctx context.Context, _, n int) (*metrics.Turn, error) {
	var turn metrics.Turn
	for {
		turn.Sent = r.now()
		result, err := r.limiter.AllowN(ctx, r.name, r.rule(), n)
		turn.Replied = r.now()
		turn.First = cmp.Or(turn.First, turn.Replied)
		switch {
		case err != nil:
			return nil, err
		case result.Allowed > 0:
			return &turn, nil
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
