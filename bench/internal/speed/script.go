package speed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit"
)

const (
	peerName = "redis_rate's script"

	interval = time.Millisecond // between two turns, and two questions
	ahead    = 10               // turns, in a short queue
	arrival  = 2 * time.Millisecond
)

// single is a reservation at one permit per interval, with a few turns ahead of it.
func single(ctx context.Context, b *bed) ([]Figure, error) {
	e, err := b.asked(fairlimit.Every(interval))
	if err != nil {
		return nil, err
	}
	peer := b.peer(int(time.Second/interval), time.Second)
	var wait time.Duration
	p, err := inTurn(ctx, b.Rounds, func(ctx context.Context) (float64, error) {
		return b.pacedRuns(ctx, interval, nothing, func() error { return peer(ctx, 1) })
	}, func(ctx context.Context) (float64, error) {
		lineUp := func() error { _, err := e.take(ctx, ones(ahead)...); return err }
		return b.pacedRuns(ctx, interval, lineUp, func() (err error) {
			wait, err = e.take(ctx, 1)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	figure := Figure{What: "script, 1 per interval, short queue", Unit: "µs", Note: fmt.Sprintf("the last one waited %v", wait.Round(interval))}
	return []Figure{figure.beside(peerName, p).against(ratioAtMost(1.5))}, nil
}

func nothing() error { return nil }

// pacedRuns is what a run costs the server while they come a step apart, once things are as prepare leaves them.
func (b *bed) pacedRuns(ctx context.Context, step time.Duration, prepare, run func() error) (float64, error) {
	if err := prepare(); err != nil {
		return 0, err
	}
	if err := paced(ctx, max(1, b.Calls/20), step, run); err != nil {
		return 0, err
	}
	return b.perRun(ctx, func() error { return paced(ctx, b.Calls, step, run) })
}

// traffic is spread over the window.
type traffic struct {
	what    string
	permits int           // in a second
	step    time.Duration // between two arrivals
	n       int           // permits in each
	queued  int           // turns ahead of it
}

// spread is a reservation where the window holds several hundred moments.
func spread(ctx context.Context, b *bed) ([]Figure, error) {
	peer := b.peer(1000, time.Second)
	sides := []measure{func(ctx context.Context) (float64, error) {
		return b.pacedRuns(ctx, arrival, nothing, func() error { return peer(ctx, 1) })
	}}
	kinds := []traffic{
		{"10³ permits, half used", 1000, arrival, 1, 0},
		{"10³ permits, saturated", 1000, arrival, 2, ahead},
		{"10⁶ permits", 1_000_000, arrival, 100, 0},
	}
	for _, t := range kinds {
		sides = append(sides, func(ctx context.Context) (float64, error) { return b.spreadRuns(ctx, t) })
	}
	all, err := allInTurn(ctx, max(1, b.Rounds/2), sides...)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for i, t := range kinds {
		figure := Figure{What: "script, " + t.what + ", spread", Unit: "µs"}
		figures = append(figures, figure.beside(peerName, all.pairs(0, i+1)).against(ratioAtMost(2.5)))
	}
	same := Figure{What: "script, 10⁶ permits, spread", Unit: "µs"}.beside("the same with 10³ permits, half used", all.pairs(1, 3))
	return append(figures, same.against(ratioAtMost(1.25))), nil
}

func (b *bed) spreadRuns(ctx context.Context, t traffic) (float64, error) {
	e, err := b.asked(fairlimit.PerSecond(t.permits))
	if err != nil {
		return 0, err
	}
	run := func() error { _, err := e.take(ctx, t.n); return err }
	return b.pacedRuns(ctx, t.step, func() error {
		if err := paced(ctx, int(b.Windows*float64(time.Second/t.step)), t.step, run); err != nil {
			return err
		}
		for range t.queued {
			if err := run(); err != nil {
				return err
			}
		}
		return nil
	}, run)
}

// batch is what a grant costs in a question for 64 equal requests.
func batch(ctx context.Context, b *bed) ([]Figure, error) {
	const gap = 100 * time.Microsecond
	kinds := []struct {
		what  string
		quota fairlimit.Quota
		step  time.Duration // between two questions
	}{
		{"quota never short", ample, 0},
		{"1 per interval", fairlimit.Every(gap), sixtyFour * gap},
	}
	var sides []measure // each behind its yardstick
	for _, k := range kinds {
		e, err := b.asked(k.quota)
		if err != nil {
			return nil, err
		}
		peer := b.peer(1_000_000, time.Second)
		sides = append(sides, func(ctx context.Context) (float64, error) {
			return b.pacedRuns(ctx, k.step, nothing, func() error { return peer(ctx, 1) })
		}, func(ctx context.Context) (float64, error) {
			micros, err := b.pacedRuns(ctx, k.step, nothing, func() error { _, err := e.take(ctx, ones(sixtyFour)...); return err })
			return micros / sixtyFour, err
		})
	}
	all, err := allInTurn(ctx, b.Rounds, sides...)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for i, k := range kinds {
		figure := Figure{What: fmt.Sprintf("script, a grant of %d equal, %s", sixtyFour, k.what), Unit: "µs"}
		figures = append(figures, figure.beside(peerName+", one grant", all.pairs(2*i, 2*i+1)).against(oursAtMost(0.5)))
	}
	return figures, nil
}

// queue is a reservation behind a short and behind a long queue, of single permits and of several.
func queue(ctx context.Context, b *bed) ([]Figure, error) {
	var figures []Figure
	for _, c := range []struct {
		what   string
		permit func() int
	}{
		{"of 1 permit", func() int { return 1 }},
		{"of 1 to 5 permits", func() int { return 1 + rand.IntN(5) }},
	} {
		var sides []measure
		for _, length := range b.Queue {
			e, err := b.asked(fairlimit.PerSecond(10))
			if err != nil {
				return nil, err
			}
			if err := e.lineUp(ctx, length, c.permit); err != nil {
				return nil, err
			}
			sides = append(sides, func(ctx context.Context) (float64, error) {
				return b.perRun(ctx, func() error {
					return paced(ctx, max(1, b.Calls/8), 0, func() error { _, err := e.take(ctx, c.permit()); return err })
				})
			})
		}
		p, err := inTurn(ctx, 2*b.Rounds, sides[0], sides[1])
		if err != nil {
			return nil, err
		}
		figure := Figure{What: fmt.Sprintf("script, %s turns %s queued", grouped(int64(b.Queue[1])), c.what), Unit: "µs"}
		figures = append(figures, figure.beside(grouped(int64(b.Queue[0]))+" queued", p).against(ratioAtMost(1.25)))
	}
	return figures, nil
}

// lineUp takes so many turns.
func (a *asked) lineUp(ctx context.Context, turns int, permit func() int) error {
	for turns > 0 {
		some := make([]int, min(turns, 100))
		for i := range some {
			some[i] = permit()
		}
		if _, err := a.take(ctx, some...); err != nil {
			return err
		}
		turns -= len(some)
	}
	return nil
}
