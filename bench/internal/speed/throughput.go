package speed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/monotime"
)

const (
	pingers   = 64
	processes = 4
	setUp     = time.Second // for processes to start and warm up
)

// taskRate is one of several processes whose callers wait on one name.
const taskRate = "rate of Wait"

func throughput(ctx context.Context, b *bed) ([]Figure, error) {
	limiter, err := b.limiter(ample)
	if err != nil {
		return nil, err
	}
	warmUp := b.Round / 5
	ping := func(ctx context.Context) (float64, error) {
		return rate(ctx, pingers, warmUp, b.Round, func(ctx context.Context) error { return b.rdb.Ping(ctx).Err() })
	}
	one := func(ctx context.Context) (float64, error) { return rate(ctx, b.Callers, warmUp, b.Round, limiter.Wait) }
	together := func(callers int) measure {
		name := b.name("together")
		return func(ctx context.Context) (float64, error) { return b.together(ctx, name, callers) }
	}
	all, err := allInTurn(ctx, b.Rounds, ping, one, together(b.Callers/processes), together(b.Callers))
	if err != nil {
		return nil, err
	}
	yardstick := fmt.Sprintf("PING by %d goroutines", pingers)
	figure := func(side int, what string, goal *Goal) Figure {
		return Figure{What: what, Unit: "a second"}.beside(yardstick, all.pairs(0, side)).against(goal)
	}
	return []Figure{
		figure(1, fmt.Sprintf("Wait, %d callers, one process", b.Callers), ratioAtLeast(15).andMark(20)),
		figure(2, fmt.Sprintf("Wait, %d processes × %d callers", processes, b.Callers/processes), ratioAtLeast(15)),
		figure(3, fmt.Sprintf("Wait, %d processes × %d callers", processes, b.Callers), ratioAtLeast(15)),
	}, nil
}

// together is the rate at which several processes get through on one name. All count during the same time and warm up until then.
func (b *bed) together(ctx context.Context, name string, callers int) (sum float64, err error) {
	from := monotime.Now() + setUp
	j := job{Task: taskRate, Redis: b.job.Redis, Scale: b.Scale, Name: name, Callers: callers, From: from, Until: from + b.Round}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			var rate float64
			failed := spawn(ctx, j, &rate)
			mu.Lock()
			defer mu.Unlock()
			sum += rate
			if failed != nil {
				err = failed
			}
		})
	}
	all.Wait()
	return sum, err
}

// rateOfWait is the part of one process in it.
func (b *bed) rateOfWait(ctx context.Context) (float64, error) {
	limiter, err := fairlimit.New(b.rdb, b.job.Name, ample)
	if err != nil {
		return 0, err
	}
	if late := monotime.Now() - b.job.From; late > 0 {
		return 0, fmt.Errorf("a process was ready %v late: the machine is too busy", late)
	}
	return rate(ctx, b.job.Callers, b.job.From-monotime.Now(), b.job.Until-b.job.From, limiter.Wait)
}
