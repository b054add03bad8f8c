package speed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// ample is a quota that is never short.
var ample = fairlimit.Quota{Permits: 1_000_000_000, Per: time.Second}

// bed is what a row is measured on.
type bed struct {
	Scale
	job job
	rdb *redis.Client

	mu    sync.Mutex
	names []string // whose keys are to be removed
}

func newBed(ctx context.Context, j job) (*bed, error) {
	rdb, err := backend.Connect(ctx, j.Redis, "")
	if err != nil {
		return nil, err
	}
	return &bed{Scale: j.Scale, job: j, rdb: rdb}, nil
}

// close removes what was left in Redis.
func (b *bed) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var errs []error
	for _, name := range b.names {
		for _, e := range engines.All {
			for _, key := range e.Keys(name) {
				errs = append(errs, b.rdb.Del(ctx, key).Err())
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("what was measured with is still in Redis: %w", err)
	}
	return b.rdb.Close()
}

// name is a new one.
func (b *bed) name(what string) string {
	name := "speed:" + rand.Text() + ":" + what
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names = append(b.names, name)
	return name
}

// limiter is a new one on a name of its own.
func (b *bed) limiter(q fairlimit.Quota, options ...fairlimit.Option) (fairlimit.Limiter, error) {
	return fairlimit.New(b.rdb, b.name("limiter"), q, options...)
}

// asked is the engine of a new limiter, to be asked without one.
func (b *bed) asked(q fairlimit.Quota) (*asked, error) {
	e, err := fair.New(engine.Config{Client: b.rdb, Name: b.name("engine"), Quota: engine.Quota(q)})
	return &asked{e}, err
}

type asked struct{ engine.Engine }

// take takes a turn for each number of permits in one question after the other,
// until all are granted, and returns the last one.
func (a *asked) take(ctx context.Context, permits ...int) (last engine.Answer, err error) {
	requests := make([]engine.Request, len(permits))
	for i, n := range permits {
		requests[i] = engine.Request{N: n, MaxWait: engine.Forever}
	}
	for len(requests) > 0 {
		answers, err := a.Take(ctx, requests)
		if err != nil {
			return last, err
		}
		for _, answer := range answers {
			if !answer.Granted {
				return last, fmt.Errorf("a turn was refused: %w", answer.Err)
			}
			last = answer
		}
		requests = requests[len(answers):]
	}
	return last, nil
}

// ones are n requests for a permit.
func ones(n int) []int {
	permits := make([]int, n)
	for i := range permits {
		permits[i] = 1
	}
	return permits
}

// peer is redis_rate at a rate that grants what is asked of it.
func (b *bed) peer(permits int, per time.Duration) func(ctx context.Context, n int) error {
	limiter, name := redis_rate.NewLimiter(b.rdb), b.name("peer")
	limit := redis_rate.Limit{Rate: permits, Burst: permits, Period: per}
	return func(ctx context.Context, n int) error {
		_, err := limiter.AllowN(ctx, name, limit, n)
		return err
	}
}

// allow is redis_rate's Allow, often enough never to be short.
func (b *bed) allow() call {
	ask := b.peer(1_000_000, time.Second)
	return func(ctx context.Context) error { return ask(ctx, 1) }
}

const trivial = "return 1"

// evalsha sends the script that only returns 1.
func (b *bed) evalsha(ctx context.Context) (call, error) {
	sha, err := b.rdb.ScriptLoad(ctx, trivial).Result()
	return func(ctx context.Context) error { return b.rdb.EvalSha(ctx, sha, nil).Err() }, err
}

// during is what the server has worked off while do ran.
func (b *bed) during(ctx context.Context, do func() error) (backend.Served, error) {
	before, err := backend.ServedBy(ctx, b.rdb)
	if err != nil {
		return backend.Served{}, err
	}
	if err := do(); err != nil {
		return backend.Served{}, err
	}
	after, err := backend.ServedBy(ctx, b.rdb)
	if err == nil && after.Runs == before.Runs {
		err = backend.ErrUncounted
	}
	return backend.Served{Runs: after.Runs - before.Runs, Micros: after.Micros - before.Micros}, err
}

// perRun is how long one run of a script took the server on average, in µs,
// while do ran.
func (b *bed) perRun(ctx context.Context, do func() error) (float64, error) {
	s, err := b.during(ctx, do)
	return s.Micros / s.Runs, err
}

// paced does it n times, a step apart. Who is late catches up.
func paced(ctx context.Context, n int, step time.Duration, do func() error) error {
	start := time.Now()
	for i := range n {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Until(start.Add(time.Duration(i) * step)))
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
