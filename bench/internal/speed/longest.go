package speed

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

// longestRows are the longest runs of a script that a question of many callers,
// or the return of many turns, takes.
func longestRows() []row {
	of := func(what string, quotas []engine.Quota, permit func() int, back bool) row {
		return row{
			"longest", "server, longest run: " + what, "", 1, one("µs", oursAtMost(1000)),
			func(ctx context.Context, b *bed) (sides, error) {
				t := &timer{bed: b}
				q, err := b.queue(ctx, scene{quotas: quotas}, t)
				return sides{ours: single(func(ctx context.Context) (float64, error) {
					return t.longest(ctx, q, permit, back)
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

// longest is the longest run in a question of a thousand callers, or if turns go
// back in the return of every fifth of them.
func (t *timer) longest(ctx context.Context, q *queue, permit func() int, back bool) (float64, error) {
	t.most = 0
	taken, err := q.take(ctx, permits(1000, permit)...)
	if err == nil && back {
		t.most = 0
		err = q.engines[0].GiveBack(ctx, everyNth(taken, 5))
	}
	return t.most, err
}

// timer keeps what the longest run of a script took the server.
type timer struct {
	*bed
	most float64
}

var _ redis.Hook = (*timer)(nil)

func (t *timer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *timer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (t *timer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (ran error) {
		if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		micros, err := t.micros(ctx, func() error { ran = next(ctx, cmd); return nil })
		t.most = max(t.most, micros)
		return cmp.Or(ran, err)
	}
}
