package tokens

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// amounts are what a call takes: one request, and tokens.
type amounts struct{ input, output int }

// A limiter lets a call go. Settle is told what its output was; nil if the
// limiter does not want to know.
type limiter interface {
	take(ctx context.Context, a amounts) (settle func(context.Context, int) error, err error)
}

// guard is what an answer may need from a slot to the upstream.
const guard = 10 * time.Millisecond

// engines open a limiter for one client.
var engines = map[string]func(redis.UniversalClient) (limiter, error){
	"fair": openFair, "chained": openChain, "redis_rate": openRates, "rival": openRival,
}

// fair takes all units in one turn, and settles it.
type fair struct{ queue *fairlimit.Queue }

func openFair(rdb redis.UniversalClient) (limiter, error) {
	q, err := fairlimit.NewQueue(rdb, "tokens", fairlimit.PerMinute(budget.requests), fairlimit.WithGuard(guard),
		fairlimit.WithUnit("input", fairlimit.PerMinute(budget.input)),
		fairlimit.WithUnit("output", fairlimit.PerMinute(budget.output)))
	return fair{q}, err
}

func (f fair) take(ctx context.Context, a amounts) (func(context.Context, int) error, error) {
	turn, err := f.queue.Take(ctx, fairlimit.Amounts{"input": a.input, "output": a.output})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, used int) error {
		return turn.Settle(ctx, fairlimit.Amounts{"output": used})
	}, nil
}

// chain waits in one queue after the other, as a program does whose queues count
// one unit each. Nothing is settled.
type chain []fairlimit.Limiter

func openChain(rdb redis.UniversalClient) (limiter, error) {
	var c chain
	for i, quota := range []int{budget.requests, budget.input, budget.output} {
		q, err := fairlimit.New(rdb, fmt.Sprint("tokens ", i), fairlimit.PerMinute(quota), fairlimit.WithGuard(guard))
		if err != nil {
			return nil, err
		}
		c = append(c, q)
	}
	return c, nil
}

func (c chain) take(ctx context.Context, a amounts) (func(context.Context, int) error, error) {
	for i, n := range []int{1, a.input, a.output} {
		if err := c[i].WaitN(ctx, n); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// rates asks redis_rate for one unit after the other, in the loop that people
// write around it.
type rates struct{ limiter *redis_rate.Limiter }

func openRates(rdb redis.UniversalClient) (limiter, error) {
	return rates{redis_rate.NewLimiter(rdb)}, nil
}

func (r rates) take(ctx context.Context, a amounts) (func(context.Context, int) error, error) {
	quotas := []int{budget.requests, budget.input, budget.output}
	for i, n := range []int{1, a.input, a.output} {
		for allowed := 0; allowed == 0; {
			result, err := r.limiter.AllowN(ctx, fmt.Sprint("tokens ", i), redis_rate.PerMinute(quotas[i]), n)
			if err != nil {
				return nil, err
			}
			if allowed = result.Allowed; allowed == 0 {
				if err := clock.Sleep(ctx, result.RetryAfter); err != nil {
					return nil, err
				}
			}
		}
	}
	return nil, nil
}

// rival is the algorithm of https://github.com/Ameyanagi/LLMRateLimiter, from its
// description: all units in one script, slots in the order of the questions, one
// sleep by the client's clock, and afterwards the output is adjusted at its old
// slot.
type rival struct{ rdb redis.UniversalClient }

//go:embed rival.lua
var rivalText string

var (
	rivalScript = redis.NewScript(rivalText)
	rivalIDs    atomic.Int64
)

func openRival(rdb redis.UniversalClient) (limiter, error) { return rival{rdb}, nil }

func (r rival) take(ctx context.Context, a amounts) (func(context.Context, int) error, error) {
	id, now := rivalIDs.Add(1), time.Now()
	text, err := rivalScript.Run(ctx, r.rdb, []string{"tokens"}, "take", id, now.UnixMicro(),
		(time.Minute + guard).Microseconds(), 1, a.input, a.output, budget.requests, budget.input, budget.output).Text()
	if err != nil {
		return nil, err
	}
	slot, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, err
	}
	if err := clock.Sleep(ctx, time.UnixMicro(slot).Sub(now)); err != nil {
		return nil, err
	}
	return func(ctx context.Context, used int) error {
		return rivalScript.Run(ctx, r.rdb, []string{"tokens"}, "adjust", id, used).Err()
	}, nil
}
