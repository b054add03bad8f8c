package engines

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

var chainedEngine = Engine{
	Name:   "chained",
	About:  "a queue of fair for each unit, one behind the other; nothing is settled",
	Guards: true, Tokens: true, NoCalls: true,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		var err error
		c := chained(name, l, func(key string, q scenario.Quota) Acquirer {
			one := l
			one.Quota, one.Input, one.Output = q, 0, 0
			queue, failed := openFair(rdb, key, one, now)
			if failed != nil {
				err = failed
			}
			return queue
		})
		return c, err
	},
}

// chain lets those through who got through one limiter after the other.
type chain []Acquirer

// chained is a limiter of the client, if it has a ceiling, and then that of all;
// and then one for each further unit.
func chained(name string, l scenario.Load, of func(name string, q scenario.Quota) Acquirer) (c chain) {
	if l.Ceiling.Permits > 0 {
		c = append(c, of(name+":"+l.Flow, l.Ceiling))
	}
	c = append(c, of(name, l.Quota))
	if l.Output > 0 {
		c = append(c, of(name+":input", scenario.Quota{Permits: l.Input, Per: l.Quota.Per}),
			of(name+":output", scenario.Quota{Permits: l.Output, Per: l.Quota.Per}))
	}
	return c
}

func (c chain) Acquire(ctx context.Context, n int) (turn *measure.Turn, err error) {
	for _, limiter := range c {
		if turn, err = limiter.Acquire(ctx, n); err != nil {
			return nil, err
		}
	}
	return turn, nil
}

// Take is for a chain of three units.
func (c chain) Take(ctx context.Context, input, output int) (Settle, error) {
	for i, n := range []int{1, input, output} {
		if _, err := c[i].Acquire(ctx, n); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
