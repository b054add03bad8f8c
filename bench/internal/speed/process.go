package speed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/engine"
)

// Role is that of the processes that measure.
const Role = "speed"

// Main is the life of such a process. It does not return.
func Main() {
	run.Answer(func(ctx context.Context, j job) (any, error) { return j.do(ctx) })
}

// job is what such a process does: it measures a group of rows or, if Name is
// set, has callers wait on a limiter of that name.
type job struct {
	Group string
	Redis string
	Scale Scale

	Name        string
	Callers     int
	From, Until time.Duration // on the machine's monotonic clock
}

// taken is what a job gave: the figures of the rows of a group, or a rate.
type taken struct {
	Figures []Figure
	Failed  []string
	Rate    float64
}

func (j job) do(ctx context.Context) (t taken, err error) {
	rdb, err := backend.Connect(ctx, j.Redis, "")
	if err != nil {
		return t, err
	}
	b := &bed{Scale: j.Scale, redis: j.Redis, rdb: rdb}
	defer func() { err = errors.Join(err, b.close()) }()
	if j.Name != "" {
		t.Rate, err = b.rateOfWait(j)
		return t, err
	}
	return b.group(ctx, j.Group), nil
}

// group measures the rows of a group. If rows have several figures, the first
// ones of all rows come first.
func (b *bed) group(ctx context.Context, name string) (t taken) {
	var by [][]Figure
	for _, r := range rows {
		if r.group != name {
			continue
		}
		figures, err := r.measure(ctx, b)
		if err != nil {
			t.Failed = append(t.Failed, err.Error())
		}
		for i, f := range figures {
			if i == len(by) {
				by = append(by, nil)
			}
			by[i] = append(by[i], f)
		}
	}
	t.Figures = slices.Concat(by...)
	return t
}

// bed is what a row is measured on.
type bed struct {
	Scale
	redis string
	rdb   *redis.Client

	mu    sync.Mutex
	names []string // whose keys are to be removed
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

// limiter is one of a name.
func (b *bed) limiter(name string, q engine.Quota) (fairlimit.Limiter, error) {
	return fairlimit.New(b.rdb, name, fairlimit.Quota(q), fairlimit.WithGuard(0))
}

// micros is for how many µs the server has run scripts while do ran.
func (b *bed) micros(ctx context.Context, do func() error) (float64, error) {
	before, err := backend.ServedBy(ctx, b.rdb)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := backend.ServedBy(ctx, b.rdb)
	if err == nil && after.Runs == before.Runs {
		err = backend.ErrUncounted
	}
	return after.Micros - before.Micros, err
}
