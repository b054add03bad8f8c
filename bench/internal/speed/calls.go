package speed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/run"
)

const (
	sixtyFour = 64
	everybody = 0  // as many as the scale has
	processes = 4  // that wait on one name
	finer     = 8  // how many times shorter a round is that needs no preparation, and more
	finest    = 64 // likewise, of a single caller

	ping    = "PING by 64 goroutines"
	evalsha = "EVALSHA of a script that returns 1"
)

// whole are rows of the whole call, the client included.
var whole = []row{
	{
		"throughput", "Wait, 1024 callers, one process", ping, 2, "a second", ratioAtLeast(15),
		metered(perSecond(1), pings(sixtyFour), waits(everybody)),
	},
	{"throughput", "Wait, 4 processes × 256 callers", ping, 1, "a second", ratioAtLeast(15), inProcesses(4)},
	{"throughput", "Wait, 4 processes × 1024 callers", ping, 1, "a second", ratioAtLeast(15), inProcesses(1)},
	{
		"alone", "Wait, 1 caller, no deadline", evalsha, finest, "µs", ratioAtMost(1.2),
		metered(mean, evalshas(1), waits(1)),
	},
	{
		"alone", "Wait, 1 caller, a deadline", evalsha, finest, "µs", ratioAtMost(1.2),
		metered(mean, hurried(evalshas(1)), hurried(waits(1))),
	},
	{
		"peer-alone", "Wait, 1 caller, no deadline", redisRate, finest, "µs", ratioAtMost(1.3),
		metered(mean, allows(1), waits(1)),
	},
	{
		"peer-alone", "Wait, 1 caller, a deadline", redisRate, finest, "µs", ratioAtMost(1.3),
		metered(mean, hurried(allows(1)), hurried(waits(1))),
	},
	{
		"limiters", "Wait, 64 limiters × 1 caller", redisRate + " by 64 goroutines", finer,
		"a second", ratioAtLeast(0.7), metered(perSecond(4), allows(sixtyFour), waitsApart(sixtyFour)),
	},
	{
		"crowd", "Wait, 64 callers, p99", "EVALSHA by 64 goroutines, p99", 2, "µs", ratioAtMost(1.5),
		metered(p99, evalshas(sixtyFour), waits(sixtyFour)),
	},
	{
		"serve", "fairlimit serve, 1024 callers, 64 connections", "net/http that does nothing", 2, "a second",
		ratioAtLeast(0.25), served,
	},
}

type call func(context.Context) error

// callers are what each of them calls.
type callers func(context.Context, *bed) ([]call, error)

// meter measures callers that call again as soon as they got through.
type meter func(context.Context, *bed, []call) (float64, error)

func metered(m meter, yardstick, ours callers) func(context.Context, *bed) (sides, error) {
	return func(ctx context.Context, b *bed) (sides, error) {
		known, err := yardstick(ctx, b)
		if err != nil {
			return sides{}, err
		}
		calls, err := ours(ctx, b)
		return sides{
			single(func(ctx context.Context) (float64, error) { return m(ctx, b, known) }),
			single(func(ctx context.Context) (float64, error) { return m(ctx, b, calls) }),
		}, err
	}
}

// alike are n callers of one kind.
func alike(n int, kind func(context.Context, *bed) (call, error)) callers {
	return func(ctx context.Context, b *bed) ([]call, error) {
		c, err := kind(ctx, b)
		return repeated(c, cmp.Or(n, b.Callers)), err
	}
}

func repeated(c call, n int) []call { return slices.Repeat([]call{c}, n) }

func pings(n int) callers {
	return alike(n, func(_ context.Context, b *bed) (call, error) {
		return func(ctx context.Context) error { return b.rdb.Ping(ctx).Err() }, nil
	})
}

func evalshas(n int) callers {
	return alike(n, func(ctx context.Context, b *bed) (call, error) {
		sha, err := b.rdb.ScriptLoad(ctx, "return 1").Result()
		return func(ctx context.Context) error { return b.rdb.EvalSha(ctx, sha, nil).Err() }, err
	})
}

func allows(n int) callers {
	return alike(n, func(_ context.Context, b *bed) (call, error) { return b.allow(), nil })
}

// waits are callers of one limiter.
func waits(n int) callers {
	return alike(n, func(_ context.Context, b *bed) (call, error) {
		limiter, err := b.limiter(b.name())
		if err != nil {
			return nil, err
		}
		return limiter.Wait, nil
	})
}

// hurried are callers with a deadline.
func hurried(all callers) callers {
	return func(ctx context.Context, b *bed) ([]call, error) {
		calls, err := all(ctx, b)
		for i, c := range calls {
			under, cancel := context.WithTimeout(ctx, time.Hour)
			context.AfterFunc(ctx, cancel)
			calls[i] = func(context.Context) error { return c(under) }
		}
		return calls, err
	}
}

// waitsApart are callers with a limiter each, all of one name, as in as many
// processes. No questions are combined.
func waitsApart(n int) callers {
	return func(_ context.Context, b *bed) (calls []call, err error) {
		name := b.name()
		for range n {
			limiter, err := b.limiter(name)
			if err != nil {
				return nil, err
			}
			calls = append(calls, limiter.Wait)
		}
		return calls, nil
	}
}

// together calls n times at once.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// rate is how many calls a second the callers get through once they are warm.
// They go on for a while. All of them are home when it returns.
func rate(calls []call, warmUp, count, after time.Duration) (perSecond float64, err error) {
	var done atomic.Int64
	var over atomic.Bool
	err = together(len(calls)+1, func(i int) (err error) {
		if i < len(calls) {
			for err == nil && !over.Load() {
				err = calls[i](context.Background())
				done.Add(1)
			}
			return err
		}
		defer over.Store(true)
		time.Sleep(warmUp)
		before, began := done.Load(), time.Now()
		for tries := 0; tries < 10 && perSecond == 0; tries++ { // on a machine that is too busy
			time.Sleep(count)
			perSecond = float64(done.Load()-before) / time.Since(began).Seconds()
		}
		time.Sleep(after)
		return nil
	})
	return perSecond, err
}

// perSecond is the rate in the scale's round, or in a part of it.
func perSecond(part time.Duration) meter {
	return func(_ context.Context, b *bed, calls []call) (float64, error) {
		return rate(calls, b.Round/part/5, b.Round/part, 0)
	}
}

// mean is how long a call takes a single caller on average, in µs.
func mean(ctx context.Context, b *bed, calls []call) (float64, error) {
	n := max(1, b.Calls/finer)
	began := time.Now()
	err := paced(context.Background(), n, 0, calls[0])
	return float64(time.Since(began)) / 1e3 / float64(n), errors.Join(err, ctx.Err())
}

// p99 is the time in µs that one call in a hundred takes or more.
func p99(ctx context.Context, b *bed, calls []call) (float64, error) {
	took := make([][]int64, len(calls))
	err := together(len(calls), func(i int) error {
		return paced(ctx, b.Calls, 0, func(ctx context.Context) error {
			began := time.Now()
			err := calls[i](ctx)
			took[i] = append(took[i], int64(time.Since(began)))
			return err
		})
	})
	return float64(quantile(slices.Concat(took...), 0.99)) / 1e3, err
}

// inProcesses is the rate at which several processes, which have a part of the
// scale's callers each, get through on one name.
func inProcesses(part int) func(context.Context, *bed) (sides, error) {
	return func(ctx context.Context, b *bed) (sides, error) {
		known, err := pings(sixtyFour)(ctx, b)
		j := job{Redis: b.redis, Name: b.name(), Callers: b.Callers / part, Round: b.Round}
		return sides{
			single(func(ctx context.Context) (float64, error) { return perSecond(1)(ctx, b, known) }),
			single(func(ctx context.Context) (sum float64, err error) {
				var all [processes]float64
				err = together(processes, func(i int) error { return run.Ask(ctx, Role, j, &all[i]) })
				for _, rate := range all {
					sum += rate
				}
				return sum, err
			}),
		}, err
	}
}

// paced calls n times, a step apart. Who is late catches up.
func paced(ctx context.Context, n int, step time.Duration, call call) error {
	start := time.Now()
	for i := range n {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Until(start.Add(time.Duration(i) * step)))
		if err := call(ctx); err != nil {
			return err
		}
	}
	return nil
}
