package speed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/monotime"
)

const (
	pingers   = 64
	processes = 4
	setUp     = time.Second // for processes to start and warm up, at first
	mostSetUp = 8 * time.Second
)

// taskRate is one of several processes whose callers wait on one name.
const taskRate = "rate of Wait"

func throughput(ctx context.Context, b *bed) ([]Figure, error) {
	limiter, err := b.limiter(ample)
	if err != nil {
		return nil, err
	}
	ping := b.rateOf(alike(pingers, func(ctx context.Context) error { return b.rdb.Ping(ctx).Err() }))
	together := func(callers int) measure {
		name := b.name("together")
		return func(ctx context.Context) (float64, error) { return b.together(ctx, name, callers) }
	}
	one, err := inTurn(ctx, 2*b.Rounds, ping, b.rateOf(alike(b.Callers, limiter.Wait)))
	if err != nil {
		return nil, err
	}
	four, err := allInTurn(ctx, b.Rounds, together(b.Callers/processes), ping, together(b.Callers))
	if err != nil {
		return nil, err
	}
	yardstick := fmt.Sprintf("PING by %d goroutines", pingers)
	figure := func(p pair, what string, goal *Goal) Figure {
		return Figure{What: what, Unit: "a second"}.beside(yardstick, p).against(goal)
	}
	return []Figure{
		figure(one, fmt.Sprintf("Wait, %d callers, one process", b.Callers), ratioAtLeast(15).andMark(20)),
		figure(four.pairs(1, 0),
			fmt.Sprintf("Wait, %d processes × %d callers", processes, b.Callers/processes), ratioAtLeast(15)),
		figure(four.pairs(1, 2),
			fmt.Sprintf("Wait, %d processes × %d callers", processes, b.Callers), ratioAtLeast(15)),
	}, nil
}

// rateOf is how many calls a second the callers get through in a round.
func (b *bed) rateOf(callers []call) measure {
	return func(ctx context.Context) (float64, error) { return rate(ctx, callers, b.Round/5, b.Round) }
}

// together is the rate at which several processes get through on one name. All
// count during the same time and warm up until then. Where the machine is too
// busy to have all of them ready by then, they are given longer.
func (b *bed) together(ctx context.Context, name string, callers int) (float64, error) {
	for patience := setUp; ; patience *= 2 {
		sum, late, err := b.attempt(ctx, name, callers, patience)
		switch {
		case err != nil:
			return 0, err
		case late == 0:
			return sum, nil
		case patience > mostSetUp:
			return 0, fmt.Errorf("%d processes were not ready within %v: the machine is too busy", late, patience)
		}
	}
}

// part is that of one process in it.
type part struct {
	Rate float64
	Late bool // it was not ready in time
}

func (b *bed) attempt(
	ctx context.Context, name string, callers int, patience time.Duration,
) (sum float64, late int, err error) {
	from := monotime.Now() + patience
	j := job{
		Task: taskRate, Redis: b.job.Redis, Scale: b.Scale, Name: name, Callers: callers,
		From: from, Until: from + b.Round,
	}
	var parts [processes]part
	var errs [processes]error
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() { errs[i] = spawn(ctx, j, &parts[i]) })
	}
	all.Wait()
	for _, p := range parts {
		sum += p.Rate
		if p.Late {
			late++
		}
	}
	return sum, late, errors.Join(errs[:]...)
}

func (b *bed) rateOfWait(ctx context.Context) (p part, err error) {
	limiter, err := fairlimit.New(b.rdb, b.job.Name, ample)
	if err != nil {
		return p, err
	}
	left := b.job.From - monotime.Now()
	if left <= 0 {
		p.Late = true
		return p, nil
	}
	p.Rate, err = rate(ctx, alike(b.job.Callers, limiter.Wait), left, b.job.Until-b.job.From)
	return p, err
}
