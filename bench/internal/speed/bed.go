package speed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/engine"
)

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
	ctx, cancel := context.WithTimeout(context.Background(), run.Grace)
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
func (b *bed) limiter(q engine.Quota, options ...fairlimit.Option) (fairlimit.Limiter, error) {
	options = append([]fairlimit.Option{fairlimit.WithGuard(0)}, options...)
	return fairlimit.New(b.rdb, b.name("limiter"), fairlimit.Quota(q), options...)
}

// served is how many scripts the server has run while do ran, and for how many
// µs.
func (b *bed) served(ctx context.Context, do func() error) (runs, micros float64, err error) {
	before, err := backend.ServedBy(ctx, b.rdb)
	if err != nil {
		return 0, 0, err
	}
	if err := do(); err != nil {
		return 0, 0, err
	}
	after, err := backend.ServedBy(ctx, b.rdb)
	if err == nil && after.Runs == before.Runs {
		err = backend.ErrUncounted
	}
	return after.Runs - before.Runs, after.Micros - before.Micros, err
}

// micros is for how long the server has run scripts.
func (b *bed) micros(ctx context.Context, do func() error) (float64, error) {
	_, micros, err := b.served(ctx, do)
	return micros, err
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
