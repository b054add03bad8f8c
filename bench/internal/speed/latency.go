package speed

import (
	"context"
	"fmt"
	"time"
)

// finer is how many times shorter the rounds of a single caller are. There are
// finer² times as many. The sooner they alternate, the more equally the machine
// treats both.
const finer = 8

const sixtyFour = 64

// alone is one caller, under a ctx without and with a deadline.
func alone(ctx context.Context, b *bed) ([]Figure, error) {
	evalsha, err := b.evalsha(ctx)
	if err != nil {
		return nil, err
	}
	return b.oneCaller(ctx, "EVALSHA of a script that returns 1", evalsha, ratioAtMost(1.2).andMark(1.1))
}

// peerAlone is the same beside redis_rate, a whole limiter beside another.
func peerAlone(ctx context.Context, b *bed) ([]Figure, error) {
	return b.oneCaller(ctx, "redis_rate's Allow", b.allow(), ratioAtMost(1.3).andMark(1.15))
}

// oneCaller is how long one Wait takes beside one call of a yardstick.
func (b *bed) oneCaller(ctx context.Context, yardstick string, known call, goal *Goal) ([]Figure, error) {
	deadline, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	var figures []Figure
	for _, c := range []struct {
		what string
		ctx  context.Context
	}{{"no deadline", context.Background()}, {"a deadline", deadline}} {
		limiter, err := b.limiter(ample)
		if err != nil {
			return nil, err
		}
		mean := func(call call) measure {
			return func(context.Context) (float64, error) {
				return each(max(1, b.Calls/finer), func() error { return call(c.ctx) })
			}
		}
		for _, warmUp := range []measure{mean(known), mean(limiter.Wait)} {
			if _, err := warmUp(ctx); err != nil {
				return nil, err
			}
		}
		p, err := inTurn(ctx, finer*finer*b.Rounds, mean(known), mean(limiter.Wait))
		if err != nil {
			return nil, err
		}
		figure := Figure{What: "Wait, 1 caller, " + c.what, Unit: "µs"}
		figures = append(figures, figure.beside(yardstick, p).against(goal))
	}
	return figures, nil
}

// each is how long a call takes on average, in µs.
func each(n int, call func() error) (float64, error) {
	began := time.Now()
	for range n {
		if err := call(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began)) / 1e3 / float64(n), nil
}

// crowd is 64 callers, by the slowest of their calls.
func crowd(ctx context.Context, b *bed) ([]Figure, error) {
	evalsha, err := b.evalsha(ctx)
	if err != nil {
		return nil, err
	}
	limiter, err := b.limiter(ample)
	if err != nil {
		return nil, err
	}
	p99 := func(what call) measure {
		return func(ctx context.Context) (float64, error) {
			return slowest(ctx, alike(sixtyFour, what), b.Round/5, b.Round)
		}
	}
	p, err := inTurn(ctx, 2*b.Rounds, p99(evalsha), p99(limiter.Wait))
	if err != nil {
		return nil, err
	}
	figure := Figure{What: fmt.Sprintf("Wait, %d callers, p99", sixtyFour), Unit: "µs"}
	yardstick := fmt.Sprintf("EVALSHA by %d goroutines, p99", sixtyFour)
	return []Figure{figure.beside(yardstick, p).against(ratioAtMost(1.5))}, nil
}
