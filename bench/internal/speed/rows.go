package speed

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

const (
	sixtyFour = 64
	everybody = 0  // as many as the scale has
	finer     = 8  // how many times shorter a round is that needs no preparation, and more
	finest    = 64 // likewise, of a single caller

	ping      = "PING by 64 goroutines"
	evalsha   = "EVALSHA of a script that returns 1"
	redisRate = "redis_rate"
	aSecond   = "a second"
)

// rows are in the order of the table.
var rows = slices.Concat([]row{
	{
		"throughput", "Wait, 1024 callers, one process", ping, 2, aSecond, ratioAtLeast(15),
		metered(perSecond(1), pings(sixtyFour)), metered(perSecond(1), waits(everybody)),
	},
	{
		"throughput", "Wait, 4 processes × 256 callers", ping, 1, aSecond, ratioAtLeast(15),
		metered(perSecond(1), pings(sixtyFour)), inProcesses(4),
	},
	{
		"throughput", "Wait, 4 processes × 1024 callers", ping, 1, aSecond, ratioAtLeast(15),
		metered(perSecond(1), pings(sixtyFour)), inProcesses(1),
	},
	{
		"alone", "Wait, 1 caller, no deadline", evalsha, finest, "µs", ratioAtMost(1.2),
		metered(mean, evalshas(1)), metered(mean, waits(1)),
	},
	{
		"alone", "Wait, 1 caller, a deadline", evalsha, finest, "µs", ratioAtMost(1.2),
		metered(mean, hurried(evalshas(1))), metered(mean, hurried(waits(1))),
	},
	{
		"peer-alone", "Wait, 1 caller, no deadline", redisRate, finest, "µs", ratioAtMost(1.3),
		metered(mean, allows(1)), metered(mean, waits(1)),
	},
	{
		"peer-alone", "Wait, 1 caller, a deadline", redisRate, finest, "µs", ratioAtMost(1.3),
		metered(mean, hurried(allows(1))), metered(mean, hurried(waits(1))),
	},
	{
		"limiters", "Wait, 64 limiters × 1 caller", redisRate + " by 64 goroutines", finer, aSecond, ratioAtLeast(0.7),
		metered(perSecond(4), allows(sixtyFour)), metered(perSecond(4), waitsApart(sixtyFour)),
	},
	{
		"crowd", "Wait, 64 callers, p99", "EVALSHA by 64 goroutines, p99", 2, "µs", ratioAtMost(1.5),
		metered(p99, evalshas(sixtyFour)), metered(p99, waits(sixtyFour)),
	},
	{
		"serve", "fairlimit serve, 1024 callers, 64 connections", "net/http that does nothing", 2, aSecond,
		ratioAtLeast(0.25),
		metered(perSecond(1), postsTo((*bed).startBare)), metered(perSecond(1), postsTo((*bed).startOurs)),
	},
}, scriptRows(), []row{
	batchRow("never short", ample, 0.3),
	batchRow("1 a ms, each at a slot of its own", "1/1ms", 1),
	batchRow("10 a second, ten at a slot", secondly, 1),

	settleRow("Settle, 1 caller", settles(1), 2),
	settleRow("Settle, 64 callers", settles(sixtyFour), 0.2),
	settleRow("a Transport, 1 caller", sends(1), 1.2),

	queueRow("1 permit", one),
	queueRow("1 to 5 permits", oneToFive),

	longestRow("1,000 callers alike, 1 window", secondly, one, false),
	longestRow("1,000 callers for 1 to 7 permits, 1 window", secondly, varied(), false),
	longestRow("1,000 callers alike, 8 windows", eight, one, false),
	longestRow("1,000 callers for 1 to 7 permits, 8 windows", eight, varied(), false),
	longestRow("200 returns, 1 window", secondly, one, true),
	longestRow("200 returns, 8 windows", eight, one, true),
})

// scriptRows has a row for each scene. Back to back the server's caches are
// warm, and sixteen limiters do not let it sleep. A cold call comes after a
// pause.
func scriptRows() (rows []row) {
	for _, s := range scenes {
		rows = append(rows, row{
			"script", s.what, redisRate, 4, "µs", s.goal,
			metered(hotAndCold, func(_ context.Context, b *bed) ([]call, error) {
				return repeated(b.peer(s.turn), sixteen), nil
			}),
			func(ctx context.Context, b *bed) (probe, error) {
				q, err := b.queue(ctx, s)
				return func(ctx context.Context) ([]float64, error) {
					if err := q.ready(ctx); err != nil {
						return nil, err
					}
					return hotAndCold(ctx, b, q.callers())
				}, err
			},
		})
	}
	return rows
}

// batchRow is what a grant costs the server in a question for 64.
func batchRow(what, quotas string, goal float64) row {
	return row{
		"batch", "server, a grant of 64: " + what, redisRate + ", one grant", 4, "µs", oursAtMost(goal),
		metered(serverTime(4, 1), allows(1)),
		metered(serverTime(4, sixtyFour), func(ctx context.Context, b *bed) ([]call, error) {
			q, err := b.queue(ctx, scene{quotas: quotas})
			return []call{hold(sixtyFour).on(q)}, err
		}),
	}
}

// settleRow is how many scripts Redis runs for a turn that is settled, of callers
// who settle at once.
func settleRow(what string, of callers, goal float64) row {
	return row{"settle", "script runs, a settled turn: " + what, "", 1, "", oursAtMost(goal), nil, metered(runs, of)}
}

// queueRow is a request behind a long queue beside one behind a short one.
func queueRow(what string, permit func() int) row {
	return row{
		"queue", "server, behind 100,000 turns of " + what, "behind 1,000", 4, "µs", ratioAtMost(1.25),
		atTheEnd(0, permit), atTheEnd(1, permit),
	}
}

// atTheEnd is what a request costs the server at the end of a queue of so many
// turns, which stays so long.
func atTheEnd(which int, permit func() int) side {
	return func(ctx context.Context, b *bed) (probe, error) {
		q, err := b.queue(ctx, scene{quotas: secondly})
		for turns := b.Queue[which]; turns > 0 && err == nil; turns -= 50 {
			_, err = q.take(ctx, permits(50, permit)...)
		}
		return func(ctx context.Context) ([]float64, error) {
			var grants []engine.Grant
			values, err := serverTime(8, 1)(ctx, b, []call{func(ctx context.Context) error {
				taken, err := q.take(ctx, permit())
				grants = append(grants, everyNth(taken, 1)...)
				return err
			}})
			return values, cmp.Or(err, q.engines[0].GiveBack(ctx, grants))
		}, err
	}
}

// longestRow is the longest run of a script that a question of many callers, or
// the return of every fifth of their turns, takes.
func longestRow(what, quotas string, permit func() int, back bool) row {
	return row{
		"longest", "server, longest run: " + what, "", 1, "µs", oursAtMost(1000),
		nil, func(ctx context.Context, b *bed) (probe, error) {
			most := 0.0
			q, err := b.queue(ctx, scene{quotas: quotas}, b.timer(&most))
			return func(ctx context.Context) ([]float64, error) {
				most = 0
				taken, err := q.take(ctx, permits(1000, permit)...)
				if err == nil && back {
					most = 0
					err = q.engines[0].GiveBack(ctx, everyNth(taken, 5))
				}
				return []float64{most}, err
			}, err
		},
	}
}

func one() int { return 1 }

func oneToFive() int { return 1 + rand.IntN(5) }

func varied() func() int {
	n := 0
	return func() int { n++; return 1 + n%7 }
}

// timer keeps what the longest run of a script took the server.
func (b *bed) timer(most *float64) redis.Hook {
	return redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) (ran error) {
		if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		s, err := b.served(ctx, func() error { ran = next(ctx, cmd); return nil })
		*most = max(*most, s.Micros)
		return cmp.Or(ran, err)
	})
}
