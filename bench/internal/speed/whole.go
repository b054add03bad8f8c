package speed

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/window"
)

const (
	sixtyFour = 64
	everybody = 0 // as many as the scale has
	finer     = 8 // how many times shorter a round is that needs no preparation, and more
)

// whole are rows of the whole call, the client included.
var whole = []row{
	{
		group: "throughput", what: "Wait, 1024 callers, one process", yardstick: "PING by 64 goroutines", rounds: 2,
		figures: []wanted{{"", "a second", ratioAtLeast(15)}}, sides: metered(perSecond(1), pings(sixtyFour), waits(everybody)),
	},
	{
		group: "throughput", what: "Wait, 4 processes × 256 callers", yardstick: "PING by 64 goroutines", rounds: 1,
		figures: []wanted{{"", "a second", ratioAtLeast(15)}}, sides: inProcesses(4),
	},
	{
		group: "throughput", what: "Wait, 4 processes × 1024 callers", yardstick: "PING by 64 goroutines", rounds: 1,
		figures: []wanted{{"", "a second", ratioAtLeast(15)}}, sides: inProcesses(1),
	},
	{
		group: "alone", what: "Wait, 1 caller, no deadline", yardstick: "EVALSHA of a script that returns 1", rounds: finer * finer,
		figures: []wanted{{"", "µs", ratioAtMost(1.2)}}, sides: metered(mean(false), evalshas(1), waits(1)),
	},
	{
		group: "alone", what: "Wait, 1 caller, a deadline", yardstick: "EVALSHA of a script that returns 1", rounds: finer * finer,
		figures: []wanted{{"", "µs", ratioAtMost(1.2)}}, sides: metered(mean(true), evalshas(1), waits(1)),
	},
	{
		group: "peer-alone", what: "Wait, 1 caller, no deadline", yardstick: redisRate, rounds: finer * finer,
		figures: []wanted{{"", "µs", ratioAtMost(1.3)}}, sides: metered(mean(false), allows(1), waits(1)),
	},
	{
		group: "peer-alone", what: "Wait, 1 caller, a deadline", yardstick: redisRate, rounds: finer * finer,
		figures: []wanted{{"", "µs", ratioAtMost(1.3)}}, sides: metered(mean(true), allows(1), waits(1)),
	},
	{
		group: "limiters", what: "Wait, 64 limiters × 1 caller", yardstick: redisRate + " by 64 goroutines", rounds: finer,
		figures: []wanted{{"", "a second", ratioAtLeast(0.7)}},
		sides:   metered(perSecond(4), allows(sixtyFour), waitsApart(sixtyFour)),
	},
	{
		group: "channels", what: "Wait, 1024 callers, one process", yardstick: "1024 callers through one goroutine, no Redis",
		rounds: finer, figures: []wanted{{"", "a second", ratioAtLeast(0.8)}},
		sides: metered(perSecond(4), thereAndBack, waits(everybody)),
	},
	{
		group: "crowd", what: "Wait, 64 callers, p99", yardstick: "EVALSHA by 64 goroutines, p99", rounds: 2,
		figures: []wanted{{"", "µs", ratioAtMost(1.5)}}, sides: metered(p99, evalshas(sixtyFour), waits(sixtyFour)),
	},
	{
		group: "allocations", what: "allocations a Wait, 64 callers", yardstick: "a PING by 64 goroutines", rounds: 1,
		figures: []wanted{{goal: oursAtMost(1)}}, sides: metered(allocated, pings(sixtyFour), waits(sixtyFour)),
	},
	{
		group: "allocations", what: "allocations a Wait, 1024 callers", yardstick: "a PING by 1024 goroutines", rounds: 1,
		figures: []wanted{{goal: oursAtMost(1)}}, sides: metered(allocated, pings(everybody), waits(everybody)),
	},
}

// callers are what each of them calls.
type callers func(context.Context, *bed) ([]call, error)

// meter measures callers that call again as soon as they got through.
type meter func(*bed, []call) probe

func metered(m meter, yardstick, ours callers) func(context.Context, *bed) (sides, error) {
	return func(ctx context.Context, b *bed) (sides, error) {
		known, err := yardstick(ctx, b)
		if err != nil {
			return sides{}, err
		}
		calls, err := ours(ctx, b)
		return sides{m(b, known), m(b, calls)}, err
	}
}

// alike are n callers of one kind.
func alike(n int, kind func(context.Context, *bed) (call, error)) callers {
	return func(ctx context.Context, b *bed) ([]call, error) {
		c, err := kind(ctx, b)
		return slices.Repeat([]call{c}, b.count(n)), err
	}
}

func (b *bed) count(n int) int {
	if n == everybody {
		return b.Callers
	}
	return n
}

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
		limiter, err := b.limiter(ample)
		if err != nil {
			return nil, err
		}
		return limiter.Wait, nil
	})
}

// waitsApart are callers with a limiter each, all of one name, as in as many
// processes. No questions are combined.
func waitsApart(n int) callers {
	return func(_ context.Context, b *bed) (calls []call, err error) {
		name := b.name("apart")
		for range n {
			limiter, err := fairlimit.New(b.rdb, name, fairlimit.Quota(ample), fairlimit.WithGuard(0))
			if err != nil {
				return nil, err
			}
			calls = append(calls, limiter.Wait)
		}
		return calls, nil
	}
}

// thereAndBack are callers that a goroutine answers at once: it costs only the
// work of waking so many.
func thereAndBack(_ context.Context, b *bed) (calls []call, err error) {
	asked := make(chan chan struct{})
	go func() {
		for reply := range asked {
			reply <- struct{}{}
		}
	}()
	for range b.Callers {
		reply := make(chan struct{})
		calls = append(calls, func(context.Context) error {
			asked <- reply
			<-reply
			return nil
		})
	}
	return calls, nil
}

// perSecond is how many calls a second the callers get through in the scale's
// round, or in a part of it.
func perSecond(part time.Duration) meter {
	return func(b *bed, calls []call) probe {
		return one(func(ctx context.Context) (float64, error) {
			return rate(ctx, calls, b.Round/part/5, b.Round/part)
		})
	}
}

func p99(b *bed, calls []call) probe {
	return one(func(ctx context.Context) (float64, error) { return slowest(ctx, calls, b.Round/5, b.Round) })
}

// mean is how long a call takes a single caller on average, in µs.
func mean(deadline bool) meter {
	return func(b *bed, calls []call) probe {
		return func(ctx context.Context) ([]float64, error) {
			under := context.Background()
			if deadline {
				var cancel context.CancelFunc
				under, cancel = context.WithTimeout(ctx, time.Hour)
				defer cancel()
			}
			n := max(1, b.Calls/finer)
			began := time.Now()
			err := paced(under, n, 0, calls[0])
			return []float64{float64(time.Since(began)) / 1e3 / float64(n)}, err
		}
	}
}

// allocated is the number of objects that a call allocates on average in the
// steady state. Everything in the process is included, the client, too.
func allocated(_ *bed, calls []call) probe {
	return one(func(ctx context.Context) (_ float64, err error) {
		result := testing.Benchmark(func(b *testing.B) {
			var callers atomic.Int64
			b.SetParallelism(max(1, len(calls)/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(more *testing.PB) {
				call := calls[int(callers.Add(1)-1)%len(calls)]
				for more.Next() {
					if err := call(ctx); err != nil {
						b.Error(err)
					}
				}
			})
		})
		if result.N == 0 { // it has failed
			err = cmp.Or(ctx.Err(), errFailed)
		}
		return float64(result.MemAllocs) / float64(max(1, result.N)), err
	})
}

var errFailed = errors.New("a call failed")

type call func(context.Context) error

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

// phases of a throng: calls count that end while it is counting.
const (
	warming int32 = iota
	counting
	over
)

// throng is callers that call again as soon as they got through.
type throng struct {
	phase atomic.Int32
	calls atomic.Int64
	took  [][]int64 // ns, of the calls of each that count, if they are timed
}

// run has them call for warmUp, counts for so long, and returns for how long it
// did. All callers are home when it returns.
func (t *throng) run(ctx context.Context, callers []call, timed bool, warmUp, count time.Duration) (time.Duration, error) {
	t.took = make([][]int64, len(callers))
	var counted time.Duration
	err := together(len(callers)+1, func(i int) error {
		if i < len(callers) {
			return t.caller(ctx, callers[i], timed, &t.took[i])
		}
		_ = clock.Sleep(ctx, warmUp)
		t.phase.Store(counting)
		began := time.Now()
		_ = clock.Sleep(ctx, count)
		t.phase.Store(over)
		counted = time.Since(began)
		return ctx.Err()
	})
	return counted, err
}

func (t *throng) caller(ctx context.Context, call call, timed bool, took *[]int64) (err error) {
	var calls int64
	var began time.Time
	for before := t.phase.Load(); before != over && err == nil; {
		if timed {
			began = time.Now()
		}
		err = call(ctx)
		if timed && before == counting {
			*took = append(*took, int64(time.Since(began)))
		}
		before = t.phase.Load()
		if before == counting {
			calls++
		}
	}
	t.calls.Add(calls)
	return err
}

// rate is how many calls a second the callers got through. Where the machine is
// so busy that nobody did, they are given longer.
func rate(ctx context.Context, callers []call, warmUp, count time.Duration) (float64, error) {
	for ; ; count *= 2 {
		var t throng
		counted, err := t.run(ctx, callers, false, warmUp, count)
		if calls := t.calls.Load(); calls > 0 || err != nil {
			return float64(calls) / counted.Seconds(), err
		}
	}
}

// slowest is the time in µs that one call in a hundred took or more.
func slowest(ctx context.Context, callers []call, warmUp, count time.Duration) (float64, error) {
	var t throng
	_, err := t.run(ctx, callers, true, warmUp, count)
	return float64(quantile(slices.Concat(t.took...), 0.99)) / 1e3, err
}

// calls are how often scripts run for each of many callers of one process that
// come at once and find nothing left.
var calls = []row{
	{
		group: "calls", what: "scripts a grant, 200 callers at once", yardstick: "window", rounds: 0.5,
		figures: []wanted{{goal: oursAtMost(0.1)}}, sides: metered(runs, waitsOf(window.New), waitsOf(fair.New)),
	},
	{
		group: "calls", what: "scripts a grant, 200 callers at once", yardstick: redisRate + ", asking again", rounds: 0.5,
		figures: []wanted{{goal: oursAtMost(0.1)}}, sides: metered(runs, retries, waitsOf(fair.New)),
	},
}

// scarce is a quota for half of those who come at once.
func (b *bed) scarce() engine.Quota { return every(max(1, b.Burst/2), 500*time.Millisecond) }

func waitsOf(engine engine.Builder) callers {
	return func(_ context.Context, b *bed) ([]call, error) {
		limiter, err := b.limiter(b.scarce(), fairlimit.WithEngine(engine))
		if err != nil {
			return nil, err
		}
		return []call{limiter.Wait}, nil
	}
}

// retries is redis_rate in a loop that asks again after RetryAfter.
func retries(_ context.Context, b *bed) ([]call, error) {
	peer, _ := engines.Named(redisRate)
	limiter, err := peer.Open(b.rdb, b.name("peer"), scenario.Load{Quota: scenario.Quota(b.scarce())}, measure.Now)
	return []call{func(ctx context.Context) error {
		_, err := limiter.Acquire(ctx, 1)
		return err
	}}, err
}

// runs takes the whole quota, lets callers come at once, and counts the runs of
// scripts for each of them.
func runs(b *bed, calls []call) probe {
	return func(ctx context.Context) ([]float64, error) {
		call := func(int) error { return calls[0](ctx) }
		if err := together(b.scarce().Permits, call); err != nil {
			return nil, err
		}
		runs, _, err := b.served(ctx, func() error { return together(b.Burst, call) })
		return []float64{runs / float64(b.Burst)}, err
	}
}
