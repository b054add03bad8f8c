package speed

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/backend"
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
	b := newBed(j.Scale, j.Redis, rdb)
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
	redis  string
	rdb    *redis.Client
	prefix string // of all names
}

// newBed has names of its own.
func newBed(s Scale, redis string, rdb *redis.Client) *bed {
	return &bed{s, redis, rdb, "speed:" + rand.Text()}
}

// close removes what was left in Redis.
func (b *bed) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), run.Grace)
	defer cancel()
	return errors.Join(backend.Remove(ctx, b.rdb, b.prefix), b.rdb.Close())
}

// name is a new one.
func (b *bed) name() string { return b.prefix + ":" + rand.Text() }

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
