package speed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

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
	limiter, err := fairlimit.New(b.rdb, b.job.Name, fairlimit.Quota(ample))
	if err != nil {
		return 0, err
	}
	left := b.job.From - measure.Now()
	if left <= 0 {
		return -1, nil
	}
	return rate(ctx, slices.Repeat([]call{limiter.Wait}, b.job.Callers), left, b.job.Until-b.job.From)
}
