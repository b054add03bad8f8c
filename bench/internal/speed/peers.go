package speed

import (
	"context"
	"fmt"

	"github.com/fairlimit/fairlimit"
)

// limiters has a limiter for each caller, all of one name, as in as many
// processes. No questions are combined.
func limiters(ctx context.Context, b *bed) ([]Figure, error) {
	name := b.name("limiters")
	var callers []call
	for range sixtyFour {
		limiter, err := fairlimit.New(b.rdb, name, ample)
		if err != nil {
			return nil, err
		}
		callers = append(callers, limiter.Wait)
	}
	p, err := b.inShortTurns(ctx, alike(sixtyFour, b.allow()), callers)
	if err != nil {
		return nil, err
	}
	figure := Figure{What: fmt.Sprintf("Wait, %d limiters × 1 caller", sixtyFour), Unit: "a second"}
	yardstick := fmt.Sprintf("redis_rate's Allow by %d goroutines", sixtyFour)
	return []Figure{figure.beside(yardstick, p).against(ratioAtLeast(0.6).andMark(0.8))}, nil
}

// channels puts callers of one limiter beside as many that a goroutine answers
// at once. Those cost only the work of waking so many.
func channels(ctx context.Context, b *bed) ([]Figure, error) {
	limiter, err := b.limiter(ample)
	if err != nil {
		return nil, err
	}
	asked := make(chan chan struct{})
	defer close(asked)
	go func() {
		for reply := range asked {
			reply <- struct{}{}
		}
	}()
	callers := make([]call, b.Callers)
	for i := range callers {
		callers[i] = thereAndBack(asked)
	}
	p, err := b.inShortTurns(ctx, callers, alike(b.Callers, limiter.Wait))
	if err != nil {
		return nil, err
	}
	figure := Figure{What: fmt.Sprintf("Wait, %d callers, one process", b.Callers), Unit: "a second"}
	yardstick := fmt.Sprintf("%d callers through one goroutine, no Redis", b.Callers)
	return []Figure{figure.beside(yardstick, p).against(ratioAtLeast(0.8).andMark(0.9))}, nil
}

// inShortTurns are the rates of both. The sooner they alternate, the more
// equally a machine that others use as well treats both.
func (b *bed) inShortTurns(ctx context.Context, yardstick, ours []call) (pair, error) {
	round := b.Round / shorter
	side := func(callers []call) measure {
		return func(ctx context.Context) (float64, error) { return rate(ctx, callers, round/5, round) }
	}
	return inTurn(ctx, 2*shorter*b.Rounds, side(yardstick), side(ours))
}

// thereAndBack hands a goroutine a channel and waits for what comes back on it.
func thereAndBack(asked chan<- chan struct{}) call {
	reply := make(chan struct{})
	return func(context.Context) error {
		asked <- reply
		<-reply
		return nil
	}
}
