package speed

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/httplimit"
)

type call func(context.Context) error

// callers are what each of them calls.
type callers func(context.Context, *bed) ([]call, error)

// meter measures callers.
type meter func(context.Context, *bed, []call) ([]float64, error)

func metered(m meter, of callers) side {
	return func(ctx context.Context, b *bed) (probe, error) {
		calls, err := of(ctx, b)
		return func(ctx context.Context) ([]float64, error) { return m(ctx, b, calls) }, err
	}
}

// alike are n callers of one kind.
func alike(n int, kind func(*bed) call) callers {
	return func(_ context.Context, b *bed) ([]call, error) { return repeated(kind(b), cmp.Or(n, b.Callers)), nil }
}

func repeated(c call, n int) []call { return slices.Repeat([]call{c}, n) }

func pings(n int) callers {
	return alike(n, func(b *bed) call {
		return func(ctx context.Context) error { return b.rdb.Ping(ctx).Err() }
	})
}

func evalshas(n int) callers {
	script := redis.NewScript("return 1")
	return alike(n, func(b *bed) call {
		return func(ctx context.Context) error { return script.Run(ctx, b.rdb, nil).Err() }
	})
}

// allows are callers of redis_rate, which is never short.
func allows(n int) callers { return alike(n, func(b *bed) call { return b.peer(atOnce) }) }

// waits are callers of one limiter.
func waits(n int) callers { return alike(n, func(b *bed) call { return b.limiter(b.name()).Wait }) }

// waitsApart are callers with a limiter each, all of one name, as in as many
// processes. No questions are combined.
func waitsApart(n int) callers {
	return func(_ context.Context, b *bed) (calls []call, err error) {
		name := b.name()
		for range n {
			calls = append(calls, b.limiter(name).Wait)
		}
		return calls, nil
	}
}

// counting is a queue with a unit, which is never short.
func (b *bed) counting() *fairlimit.Queue {
	quota := fairlimit.Quota{Permits: billion, Per: time.Second}
	return must(fairlimit.NewQueue(b.rdb, b.name(), quota, fairlimit.WithGuard(0), fairlimit.WithUnit("tokens", quota)))
}

var reserved = fairlimit.Amounts{"tokens": 500}

func used() fairlimit.Amounts { return fairlimit.Amounts{"tokens": rand.IntN(1000)} }

// settles are callers who take a turn, and settle it.
func settles(n int) callers {
	return alike(n, func(b *bed) call {
		queue := b.counting()
		return func(ctx context.Context) error {
			turn, err := queue.Take(ctx, reserved)
			if err != nil {
				return err
			}
			return turn.Settle(ctx, used())
		}
	})
}

// sends are callers of a transport that settles what they took, of an upstream
// that answers at once.
func sends(n int) callers {
	return alike(n, func(b *bed) call {
		client := http.Client{Transport: &httplimit.Transport{
			Limiter: b.counting(), Base: answering{},
			Amounts: func(*http.Request) fairlimit.Amounts { return reserved },
			Used:    func(*http.Response, []byte) (fairlimit.Amounts, bool) { return used(), true },
		}}
		return func(context.Context) error {
			resp, err := client.Get("http://upstream")
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
	})
}

// answering is an upstream that answers at once.
type answering struct{}

func (answering) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
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

// each has every caller call n times, all of them at once.
func each(ctx context.Context, calls []call, n int) error {
	return together(len(calls), func(i int) error { return paced(ctx, n, 0, calls[i]) })
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
	return func(_ context.Context, b *bed, calls []call) ([]float64, error) {
		value, err := rate(calls, b.Round/part/5, b.Round/part, 0)
		return []float64{value}, err
	}
}

// mean is how long a call takes a single caller on average, in µs.
func mean(ctx context.Context, b *bed, calls []call) ([]float64, error) {
	n := max(1, b.Calls/finer)
	began := time.Now()
	err := paced(context.Background(), n, 0, calls[0])
	return []float64{micros(time.Since(began)) / float64(n)}, errors.Join(err, ctx.Err())
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// p99 is the time in µs that one call in a hundred takes or more.
func p99(ctx context.Context, b *bed, calls []call) ([]float64, error) {
	took := make([][]float64, len(calls))
	err := together(len(calls), func(i int) error {
		return paced(ctx, b.Calls, 0, func(ctx context.Context) error {
			began := time.Now()
			err := calls[i](ctx)
			took[i] = append(took[i], micros(time.Since(began)))
			return err
		})
	})
	return []float64{quantile(slices.Concat(took...), 0.99)}, err
}

// runs is how many scripts the server runs for a call, with those that it runs a
// little later.
func runs(ctx context.Context, b *bed, calls []call) ([]float64, error) {
	const later = 100 * time.Millisecond
	times := max(1, b.Calls/8)
	s, err := b.served(ctx, func() error {
		err := each(ctx, calls, times)
		time.Sleep(later)
		return err
	})
	return []float64{s.Runs / float64(len(calls)*times)}, err
}

// serverTime is what a grant costs the server in calls for so many each, without
// a pause. It calls a part of the scale's times.
func serverTime(part, grants int) meter {
	return func(ctx context.Context, b *bed, calls []call) ([]float64, error) {
		times := max(1, b.Calls/part)
		s, err := b.served(ctx, func() error { return each(ctx, calls, times) })
		return []float64{s.Micros / float64(times*grants)}, err
	}
}

// rest is between two cold calls: long enough for the server and the processor
// to turn to something else.
const rest = time.Millisecond

// hotAndCold is what a request costs the server and takes in all when callers
// ask without a pause, and what it costs the server after one.
func hotAndCold(ctx context.Context, b *bed, calls []call) ([]float64, error) {
	times, few := max(1, b.Calls/16), max(1, b.Calls/8)
	var took float64
	hot, err := b.served(ctx, func() error {
		began := time.Now()
		err := each(ctx, calls, times)
		took = micros(time.Since(began))
		return err
	})
	if err != nil {
		return nil, err
	}
	cold, err := b.served(ctx, func() error { return paced(ctx, few, rest, calls[0]) })
	return []float64{hot.Micros / float64(len(calls)*times), took / float64(times), cold.Micros / float64(few)}, err
}

// processes that wait on one name.
const processes = 4

// inProcesses is the rate at which several processes, which have a part of the
// scale's callers each, get through on one name.
func inProcesses(part int) side {
	return func(_ context.Context, b *bed) (probe, error) {
		j := job{Redis: b.redis, Name: b.name(), Callers: b.Callers / part, Round: b.Round}
		return func(ctx context.Context) ([]float64, error) {
			var all [processes]float64
			err := together(processes, func(i int) error { return run.Ask(ctx, Role, j, &all[i]) })
			return []float64{all[0] + all[1] + all[2] + all[3]}, err
		}, nil
	}
}
