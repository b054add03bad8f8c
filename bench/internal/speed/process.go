package speed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// Role is that of the processes that measure.
const Role = "speed"

// job is what such a process does.
type job struct {
	Task  string // a group of rows, or what a row hands on
	Redis string
	Scale Scale

	// For taskRate.
	Name    string        `json:",omitempty"` // of the limiter
	Callers int           `json:",omitempty"`
	From    time.Duration `json:",omitempty"` // on the machine's monotonic clock
	Until   time.Duration `json:",omitempty"`
}

// Main is the life of such a process. It does not return.
func Main() {
	run.Answer(func(ctx context.Context, j job) (any, error) { return j.do(ctx) })
}

func (j job) do(ctx context.Context) (result any, err error) {
	b, err := newBed(ctx, j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	switch j.Task {
	case taskRate:
		return b.rateOfWait(ctx)
	case taskSleepers:
		return b.asleep(ctx, b.waits)
	case taskTimers:
		return b.asleep(ctx, b.sleeps)
	default:
		return b.group(ctx, j.Task), nil
	}
}

// taken is what the rows of a group gave.
type taken struct {
	Figures []Figure
	Failed  []string
}

// group measures the rows of a group. Where rows have several figures, the
// first ones of all rows come first.
func (b *bed) group(ctx context.Context, name string) (t taken) {
	by := make([][]Figure, 1)
	for _, r := range rows {
		if r.group != name {
			continue
		}
		figures, err := r.measure(ctx, b)
		if err != nil {
			t.Failed = append(t.Failed, err.Error())
		}
		by = append(by, make([][]Figure, max(0, len(figures)-len(by)))...)
		for i, f := range figures {
			by[i] = append(by[i], f)
		}
	}
	t.Figures = slices.Concat(by...)
	return t
}

// spawn has a process of its own do the job, and decodes its result.
func spawn(ctx context.Context, j job, result any) error { return run.Ask(ctx, Role, j, result) }

const (
	processes = 4
	setUp     = time.Second // for processes to start and warm up, at first
	mostSetUp = 8 * time.Second
)

// taskRate is one of several processes whose callers wait on one name.
const taskRate = "rate of Wait"

// inProcesses is four processes that have a part of the scale's callers each.
func inProcesses(part int) func(context.Context, *bed) (sides, error) {
	return func(ctx context.Context, b *bed) (sides, error) {
		known, err := pings(sixtyFour)(ctx, b)
		name := b.name("together")
		return sides{perSecond(1)(b, known), one(func(ctx context.Context) (float64, error) {
			return b.inProcesses(ctx, name, b.Callers/part)
		})}, err
	}
}

// inProcesses is the rate at which several processes get through on one name. All
// count during the same time and warm up until then. Where the machine is too
// busy to have all of them ready by then, they are given longer.
func (b *bed) inProcesses(ctx context.Context, name string, callers int) (float64, error) {
	for patience := setUp; patience <= mostSetUp; patience *= 2 {
		sum, err := b.attempt(ctx, name, callers, patience)
		if !errors.Is(err, errLate) {
			return sum, err
		}
	}
	return 0, fmt.Errorf("%w: the machine is too busy", errLate)
}

var errLate = errors.New("a process was not ready in time")

func (b *bed) attempt(ctx context.Context, name string, callers int, patience time.Duration) (sum float64, err error) {
	from := measure.Now() + patience
	j := job{
		Task: taskRate, Redis: b.job.Redis, Scale: b.Scale, Name: name, Callers: callers,
		From: from, Until: from + b.Round,
	}
	var rates [processes]float64
	err = together(processes, func(i int) error { return spawn(ctx, j, &rates[i]) })
	for _, r := range rates {
		if err == nil && r < 0 {
			err = errLate
		}
		sum += r
	}
	return sum, err
}

// rateOfWait is that of one of them; below 0, it was not ready in time.
func (b *bed) rateOfWait(ctx context.Context) (float64, error) {
	limiter, err := fairlimit.New(b.rdb, b.job.Name, fairlimit.Quota(ample), fairlimit.WithGuard(0))
	if err != nil {
		return 0, err
	}
	left := b.job.From - measure.Now()
	if left <= 0 {
		return -1, nil
	}
	return rate(ctx, slices.Repeat([]call{limiter.Wait}, b.job.Callers), left, b.job.Until-b.job.From)
}
