package speed

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// longestRows are the longest runs of a script that a question of many callers,
// or the return of every fifth of their turns, takes.
func longestRows() []row {
	of := func(what, quotas string, permit func() int, back bool) row {
		return row{
			"longest", "server, longest run: " + what, "", 1, "µs", oursAtMost(1000),
			func(ctx context.Context, b *bed) (sides, error) {
				most := 0.0
				q, err := b.queue(ctx, scene{quotas: quotas}, b.timer(&most))
				return sides{ours: single(func(ctx context.Context) (float64, error) {
					most = 0
					taken, err := q.take(ctx, permits(1000, permit)...)
					if err == nil && back {
						most = 0
						err = q.engines[0].GiveBack(ctx, everyNth(taken, 5))
					}
					return most, err
				})}, err
			},
		}
	}
	n := 0
	varied := func() int { n++; return 1 + n%7 }
	return []row{
		of("1,000 callers alike, 1 window", secondly, always(1), false),
		of("1,000 callers for 1 to 7 permits, 1 window", secondly, varied, false),
		of("1,000 callers alike, 8 windows", eight, always(1), false),
		of("1,000 callers for 1 to 7 permits, 8 windows", eight, varied, false),
		of("200 returns, 1 window", secondly, always(1), true),
		of("200 returns, 8 windows", eight, varied, true),
	}
}

// timer keeps what the longest run of a script took the server.
func (b *bed) timer(most *float64) run.Hook {
	return func(ctx context.Context, commands []redis.Cmder, send func() error) (ran error) {
		if name := commands[0].Name(); name != "evalsha" && name != "eval" {
			return send()
		}
		micros, err := b.micros(ctx, func() error { ran = send(); return nil })
		*most = max(*most, micros)
		return cmp.Or(ran, err)
	}
}
