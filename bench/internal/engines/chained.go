package engines

import (
	"context"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// chain lets those through who got through one limiter after the other.
type chain []Acquirer

// chained is a limiter of the client, if it has a ceiling, and then that of all;
// and then one for each further unit.
func chained(s Setup, of func(name string, q scenario.Quota) (Acquirer, error)) (c chain, err error) {
	add := func(suffix string, q scenario.Quota) {
		if err == nil && q.Permits > 0 {
			var one Acquirer
			one, err = of(s.Name+suffix, q)
			c = append(c, one)
		}
	}
	add(":"+s.Flow, s.Ceiling)
	add("", s.Quota)
	add(":input", scenario.Quota{Permits: s.Input, Per: s.Quota.Per})
	add(":output", scenario.Quota{Permits: s.Output, Per: s.Quota.Per})
	return c, err
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
