package speed

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// rest is between two cold calls: long enough for the server and the processor
// to turn to something else.
const rest = time.Millisecond

// scriptRows has a row for each scene. Back to back the server's caches are
// warm, and sixteen limiters do not let it sleep. A cold call comes after a
// pause.
func scriptRows() (rows []row) {
	for _, s := range scenes {
		rows = append(rows, row{
			"script", s.what, redisRate, 4, "µs", s.goal,
			func(ctx context.Context, b *bed) (sides, error) {
				q, err := b.queue(ctx, s)
				if err != nil {
					return sides{}, err
				}
				return sides{b.hotAndCold(b.peer(b.name(), s.turn), nothing), b.hotAndCold(q.ask, q.ready)}, nil
			},
		})
	}
	return rows
}

func nothing(context.Context) error { return nil }

// hotAndCold is what a request costs the server and takes in all when sixteen
// limiters ask without a pause, and what it costs the server after one.
func (b *bed) hotAndCold(ask func(ctx context.Context, limiter int) error, ready call) probe {
	return func(ctx context.Context) ([]float64, error) {
		if err := ready(ctx); err != nil {
			return nil, err
		}
		times, few := max(1, b.Calls/16), max(1, b.Calls/8)
		var took time.Duration
		hot, err := b.micros(ctx, func() error {
			began := time.Now()
			defer func() { took = time.Since(began) }()
			return together(sixteen, func(i int) error {
				return paced(ctx, times, 0, func(ctx context.Context) error { return ask(ctx, i) })
			})
		})
		if err != nil {
			return nil, err
		}
		cold, err := b.micros(ctx, func() error {
			return paced(ctx, few, rest, func(ctx context.Context) error { return ask(ctx, 0) })
		})
		return []float64{
			hot / float64(sixteen*times), float64(took.Nanoseconds()) / 1e3 / float64(times), cold / float64(few),
		}, err
	}
}

// batchRows are what a grant costs the server in a question for 64.
func batchRows() []row {
	of := func(what, quotas string, goal float64) row {
		return row{
			"batch", "server, a grant of 64: " + what, redisRate + ", one grant", 4, "µs", oursAtMost(goal),
			func(ctx context.Context, b *bed) (sides, error) {
				q, err := b.queue(ctx, scene{quotas: quotas})
				return sides{b.serverTime(1, b.allow()), b.serverTime(sixtyFour, func(ctx context.Context) error {
					_, err := q.take(ctx, permits(sixtyFour, always(1))...)
					return err
				})}, err
			},
		}
	}
	return []row{
		of("never short", ample, 0.3),
		of("1 a ms, each at a slot of its own", "1/1ms", 1),
		of("10 a second, ten at a slot", secondly, 1),
	}
}

// serverTime is what a grant costs the server in calls for so many each,
// without a pause.
func (b *bed) serverTime(grants int, call call) probe {
	return single(func(ctx context.Context) (float64, error) {
		calls := max(1, b.Calls/4)
		micros, err := b.micros(ctx, func() error { return paced(ctx, calls, 0, call) })
		return micros / float64(calls*grants), err
	})
}

// queueRows are a request behind a long queue beside one behind a short one, of
// single permits and of several.
func queueRows() []row {
	of := func(what string, permit func() int) row {
		return row{
			"queue", "server, behind 100,000 turns of " + what, "behind 1,000", 4, "µs", ratioAtMost(1.25),
			func(ctx context.Context, b *bed) (s sides, err error) {
				if s.yardstick, err = b.atTheEnd(ctx, b.Queue[0], permit); err == nil {
					s.ours, err = b.atTheEnd(ctx, b.Queue[1], permit)
				}
				return s, err
			},
		}
	}
	return []row{of("1 permit", always(1)), of("1 to 5 permits", oneToFive)}
}

// atTheEnd is what a request costs the server at the end of a queue of so many
// turns, which stays so long.
func (b *bed) atTheEnd(ctx context.Context, turns int, permit func() int) (probe, error) {
	q, err := b.queue(ctx, scene{quotas: secondly})
	for some := 50; turns > 0 && err == nil; turns -= some {
		_, err = q.take(ctx, permits(some, permit)...)
	}
	return single(func(ctx context.Context) (float64, error) {
		var grants []engine.Grant
		calls := max(1, b.Calls/8)
		micros, err := b.micros(ctx, func() error {
			return paced(ctx, calls, 0, func(ctx context.Context) error {
				taken, err := q.take(ctx, permit())
				grants = append(grants, everyNth(taken, 1)...)
				return err
			})
		})
		return micros / float64(calls), cmp.Or(err, q.engines[0].GiveBack(ctx, grants))
	}), err
}

func oneToFive() int { return 1 + rand.IntN(5) }
