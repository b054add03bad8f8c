package speed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/backend"
)

// bed is what rows are measured on.
type bed struct {
	rdb    *redis.Client
	prefix string // of all names
}

func newBed(ctx context.Context, addr string) (*bed, error) {
	rdb, err := backend.Connect(ctx, addr)
	return &bed{rdb, "speed:" + rand.Text()}, err
}

// close removes what was left in Redis.
func (b *bed) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(backend.Remove(ctx, b.rdb, b.prefix), b.rdb.Close())
}

// name is a new one.
func (b *bed) name() string { return b.prefix + ":" + rand.Text() }

type call func(context.Context) error

// callers are what each of them calls.
type callers func(context.Context, *bed) ([]call, error)

func same(c call, n int) []call { return slices.Repeat([]call{c}, n) }

// opener makes the limiter of a name for one of several callers.
type opener func(b *bed, name string, caller int) (*fairlimit.Queue, error)

// quotas are one or two of a queue, as [fairlimit.ParseQuota] reads them.
func quotas(texts ...string) opener {
	return func(b *bed, name string, _ int) (*fairlimit.Queue, error) {
		var all [2]fairlimit.Quota
		for i, text := range texts {
			var err error
			if all[i], err = fairlimit.ParseQuota(text); err != nil {
				return nil, err
			}
		}
		opts := []fairlimit.Option{fairlimit.WithGuard(0)}
		if len(texts) > 1 {
			opts = append(opts, fairlimit.WithExtraQuota(all[1]))
		}
		return fairlimit.NewQueue(b.rdb, name, all[0], opts...)
	}
}

func units(b *bed, name string, _ int) (*fairlimit.Queue, error) {
	tokens := fairlimit.WithUnit("tokens", fairlimit.PerMinute(30_000))
	return fairlimit.NewQueue(b.rdb, name, fairlimit.PerMinute(500), fairlimit.WithGuard(0), tokens)
}

// flows has one flow for each caller. The quota is never short, since callers of
// a flow do not hold much ahead.
func flows(b *bed, name string, caller int) (*fairlimit.Queue, error) {
	flow := fairlimit.WithFlow(strconv.Itoa(caller), 1)
	return fairlimit.NewQueue(b.rdb, name, fairlimit.PerSecond(1_000_000_000), fairlimit.WithGuard(0), flow)
}

func inPause(b *bed, name string, caller int) (*fairlimit.Queue, error) {
	return paused(b, name, caller, time.Hour)
}

// afterPause is when the shortest pause is over, and turns still lie ahead.
func afterPause(b *bed, name string, caller int) (*fairlimit.Queue, error) {
	q, err := paused(b, name, caller, 200*time.Millisecond)
	for caller == 0 && err == nil {
		var s fairlimit.Status
		if s, err = q.Status(context.Background()); s.Paused <= 0 {
			break
		}
		time.Sleep(s.Paused)
	}
	return q, err
}

// paused has the first caller pause a queue in which turns lie ahead.
func paused(b *bed, name string, caller int, d time.Duration) (*fairlimit.Queue, error) {
	ctx := context.Background()
	q, err := quotas("10/1s")(b, name, caller)
	if err != nil || caller > 0 {
		return q, err
	}
	return q, errors.Join(each(ctx, []call{reserving(q)}, 100), q.Pause(ctx, d))
}

// reserving takes a turn, and does not wait for it.
func reserving(q *fairlimit.Queue) call {
	return func(ctx context.Context) (err error) {
		_, err = q.ReserveN(ctx, 1)
		return err
	}
}

// reservingTokens takes a turn for a call and its tokens.
func reservingTokens(q *fairlimit.Queue) call {
	return func(ctx context.Context) (err error) {
		_, err = q.ReserveAmounts(ctx, fairlimit.Amounts{"tokens": 700})
		return err
	}
}

func waiting(q *fairlimit.Queue) call { return q.Wait }

// limitersApart are callers with a limiter each, all of one name, as in as many
// processes. No questions are combined.
func limitersApart(n int, open opener, what func(*fairlimit.Queue) call) callers {
	return func(_ context.Context, b *bed) (calls []call, err error) {
		name := b.name()
		for caller := range n {
			q, err := open(b, name, caller)
			if err != nil {
				return nil, err
			}
			calls = append(calls, what(q))
		}
		return calls, nil
	}
}

// oneLimiter is that of all callers.
func oneLimiter(n int, open opener, what func(*fairlimit.Queue) call) callers {
	return func(_ context.Context, b *bed) ([]call, error) {
		q, err := open(b, b.name(), 0)
		return same(what(q), n), err
	}
}

// refusals are asked for a turn at once, of a queue that has none left.
func refusals(ctx context.Context, b *bed) ([]call, error) {
	calls, err := limitersApart(sixteen, quotas("100/1h"), func(q *fairlimit.Queue) call {
		return func(ctx context.Context) error {
			ok, err := q.Allow(ctx)
			if ok {
				err = errors.New("a turn was granted")
			}
			return err
		}
	})(ctx, b)
	for range 100 {
		_ = calls[0](ctx)
	}
	return calls, err
}

// settling is a caller that takes a turn and settles it.
func settling(_ context.Context, b *bed) ([]call, error) {
	quota := fairlimit.PerSecond(1_000_000_000)
	q, err := fairlimit.NewQueue(b.rdb, b.name(), quota, fairlimit.WithUnit("tokens", quota), fairlimit.WithGuard(0))
	return []call{func(ctx context.Context) error {
		turn, err := q.Take(ctx, fairlimit.Amounts{"tokens": 500})
		if err != nil {
			return err
		}
		return turn.Settle(ctx, fairlimit.Amounts{"tokens": 300})
	}}, err
}

var (
	ample  = redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second}
	hourly = redis_rate.Limit{Rate: 1, Burst: 1, Period: time.Hour} // refused, but for the first
)

// peers are callers of redis_rate.
func peers(n int, limit redis_rate.Limit) callers {
	return func(_ context.Context, b *bed) ([]call, error) {
		name, limiter := b.name(), redis_rate.NewLimiter(b.rdb)
		return same(func(ctx context.Context) error {
			_, err := limiter.Allow(ctx, name, limit)
			return err
		}, n), nil
	}
}

func pings(n int) callers {
	return func(_ context.Context, b *bed) ([]call, error) {
		return same(func(ctx context.Context) error { return b.rdb.Ping(ctx).Err() }, n), nil
	}
}

// each has every caller call n times, all of them at once.
func each(ctx context.Context, calls []call, n int) error {
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			for range n {
				if errs[i] = call(ctx); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// done is what was called, how long it took, and what the server ran meanwhile.
type done struct {
	calls, seconds float64
	backend.Served
}

// do has all callers call without a pause while the loop goes on, once they are
// warm.
func (b *bed) do(ctx context.Context, of callers, l loop) (d done, err error) {
	calls, err := of(ctx, b)
	if err == nil {
		err = each(ctx, calls, 2)
	}
	if err != nil {
		return d, err
	}
	before, err := backend.ServedBy(ctx, b.rdb)
	if err != nil {
		return d, err
	}
	calling, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	var counted atomic.Int64
	errs := make([]error, len(calls))
	began := time.Now()
	for i, call := range calls {
		all.Go(func() {
			for calling.Err() == nil && errs[i] == nil {
				if err := call(calling); calling.Err() == nil {
					errs[i] = err
					counted.Add(1)
				}
			}
		})
	}
	for l.Loop() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	d.calls, d.seconds = float64(counted.Load()), time.Since(began).Seconds()
	after, err := backend.ServedBy(ctx, b.rdb)
	stop()
	all.Wait()
	d.Served = backend.Served{Runs: after.Runs - before.Runs, Micros: after.Micros - before.Micros}
	return d, errors.Join(append(errs, err)...)
}

// kilobytes are those of all keys of a name.
func (b *bed) kilobytes(ctx context.Context, name string) (kb float64, err error) {
	keys, err := b.rdb.Keys(ctx, "*"+name+"*").Result()
	for _, key := range keys {
		bytes, failed := b.rdb.MemoryUsage(ctx, key).Result()
		kb, err = kb+float64(bytes)/1000, errors.Join(err, failed)
	}
	if err == nil && kb == 0 {
		err = fmt.Errorf("there is no key of %q", name)
	}
	return kb, err
}
