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
)

// Role is that of the processes in which callers wait beside those of others.
const Role = "speed"

// Main is the life of such a process. It does not return.
func Main() {
	run.Answer(func(ctx context.Context, j job, _ func() time.Duration) (any, error) {
		if j.Bare != "" {
			return nil, serveBare(ctx, j.Bare)
		}
		return j.do(ctx)
	})
}

// job is to have callers wait on a limiter of a name, and to count those who get
// through for a round. They call for a round before and half a round after, so
// that all processes are at work while any of them counts.
type job struct {
	Redis, Name string
	Callers     int
	Round       time.Duration

	Bare string // the socket of a server that does nothing; that is all the job then
}

func (j job) do(ctx context.Context) (perSecond float64, err error) {
	rdb, err := backend.Connect(ctx, j.Redis, "")
	if err != nil {
		return 0, err
	}
	b := newBed(Scale{}, j.Redis, rdb)
	limiter, err := b.limiter(j.Name)
	if err == nil {
		perSecond, err = rate(repeated(limiter.Wait, j.Callers), j.Round, j.Round, j.Round/2)
	}
	return perSecond, errors.Join(err, b.close())
}

// bed is what a row is measured on.
type bed struct {
	Scale
	redis  string
	rdb    *redis.Client
	prefix string // of all names

	atEnd []func() error // ends what was begun, the last first
}

// newBed has names of its own.
func newBed(s Scale, redis string, rdb *redis.Client) *bed {
	return &bed{Scale: s, redis: redis, rdb: rdb, prefix: "speed:" + rand.Text()}
}

// close ends what was begun, and removes what was left in Redis.
func (b *bed) close() (err error) {
	for _, end := range slices.Backward(b.atEnd) {
		err = errors.Join(err, end())
	}
	ctx, cancel := context.WithTimeout(context.Background(), run.Grace)
	defer cancel()
	return errors.Join(err, backend.Remove(ctx, b.rdb, b.prefix), b.rdb.Close())
}

// name is a new one.
func (b *bed) name() string { return b.prefix + ":" + rand.Text() }

// limiter is one of a name that is never short.
func (b *bed) limiter(name string) (fairlimit.Limiter, error) {
	return fairlimit.New(b.rdb, name, fairlimit.Quota{Permits: billion, Per: time.Second}, fairlimit.WithGuard(0))
}

// served is what scripts the server has run while do ran.
func (b *bed) served(ctx context.Context, do func() error) (s backend.Served, err error) {
	before, err := backend.ServedBy(ctx, b.rdb)
	if err != nil {
		return s, err
	}
	if err := do(); err != nil {
		return s, err
	}
	after, err := backend.ServedBy(ctx, b.rdb)
	if err == nil && after.Runs == before.Runs {
		err = backend.ErrUncounted
	}
	return backend.Served{Runs: after.Runs - before.Runs, Micros: after.Micros - before.Micros}, err
}
