package speed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

const (
	peerName = "redis_rate's script"

	interval = time.Millisecond // between two turns, and two questions
	ahead    = 10               // turns, in a short queue
	arrival  = 2 * time.Millisecond

	// shorter is by how much rounds that need no long preparation are shorter,
	// and more. They stay long enough to contain what a script does now and
	// then.
	shorter = 4
)

// single is a reservation at one permit per interval, with a few turns ahead of
// it.
func single(ctx context.Context, b *bed) ([]Figure, error) {
	e, err := b.asked(fairlimit.Every(interval))
	if err != nil {
		return nil, err
	}
	peer := b.peer(int(time.Second/interval), time.Second)
	var last engine.Answer
	p, err := inTurn(ctx, shorter*b.Rounds, func(ctx context.Context) (float64, error) {
		return b.pacedRuns(ctx, b.Calls/shorter, interval, nothing, func() error { return peer(ctx, 1) })
	}, func(ctx context.Context) (float64, error) {
		lineUp := func() error { _, err := e.take(ctx, ones(ahead)...); return err }
		return b.pacedRuns(ctx, b.Calls/shorter, interval, lineUp, func() (err error) {
			last, err = e.take(ctx, 1)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	figure := Figure{
		What: "script, 1 per interval, short queue", Unit: "µs",
		Note: fmt.Sprintf("the last one waited %v", last.Wait.Round(interval)),
	}
	return []Figure{figure.beside(peerName, p).against(ratioAtMost(1.5))}, nil
}

func nothing() error { return nil }

// pacedRuns is what a run costs the server while so many come a step apart.
// prepare goes before them.
func (b *bed) pacedRuns(ctx context.Context, runs int, step time.Duration, prepare, run func() error) (float64, error) {
	if err := prepare(); err != nil {
		return 0, err
	}
	if err := paced(ctx, max(1, runs/20), step, run); err != nil {
		return 0, err
	}
	return b.perRun(ctx, func() error { return paced(ctx, max(1, runs), step, run) })
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
		return b.pacedRuns(ctx, b.Calls, arrival, nothing, func() error { return peer(ctx, 1) })
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
	same := Figure{What: "script, 10⁶ permits, spread", Unit: "µs"}.
		beside("the same with 10³ permits, half used", all.pairs(1, 3))
	return append(figures, same.against(ratioAtMost(1.25))), nil
}

func (b *bed) spreadRuns(ctx context.Context, t traffic) (float64, error) {
	e, err := b.asked(fairlimit.PerSecond(t.permits))
	if err != nil {
		return 0, err
	}
	run := func() error { _, err := e.take(ctx, t.n); return err }
	return b.pacedRuns(ctx, b.Calls, t.step, func() error {
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

// batch is what a grant costs in a question for 64 equal requests, one after
// the other.
func batch(ctx context.Context, b *bed) ([]Figure, error) {
	kinds := []struct {
		what  string
		quota fairlimit.Quota
	}{
		{"quota never short", ample},
		{"1 per interval", fairlimit.Every(interval)},
	}
	var sides []measure // each behind its yardstick
	for _, k := range kinds {
		e, err := b.asked(k.quota)
		if err != nil {
			return nil, err
		}
		peer := b.peer(1_000_000, time.Second)
		sides = append(sides, func(ctx context.Context) (float64, error) {
			return b.pacedRuns(ctx, b.Calls/shorter, 0, nothing, func() error { return peer(ctx, 1) })
		}, func(ctx context.Context) (float64, error) {
			micros, err := b.pacedRuns(ctx, b.Calls/shorter, 0, nothing, func() error {
				_, err := e.take(ctx, ones(sixtyFour)...)
				return err
			})
			return micros / sixtyFour, err
		})
	}
	all, err := allInTurn(ctx, shorter*b.Rounds, sides...)
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

// queue is a reservation behind a short and behind a long queue, of single
// permits and of several.
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
			sides = append(sides, func(ctx context.Context) (float64, error) { return b.atTheEnd(ctx, e, c.permit) })
		}
		p, err := inTurn(ctx, shorter*b.Rounds, sides[0], sides[1])
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("script, %s turns %s queued", grouped(int64(b.Queue[1])), c.what)
		figure := Figure{What: what, Unit: "µs"}
		figures = append(figures, figure.beside(grouped(int64(b.Queue[0]))+" queued", p).against(ratioAtMost(1.25)))
	}
	return figures, nil
}

// atTheEnd is what a run costs the server at the end of the queue. It leaves
// the queue as long as it was.
func (b *bed) atTheEnd(ctx context.Context, e *asked, permit func() int) (float64, error) {
	var grants []engine.Grant
	micros, err := b.perRun(ctx, func() error {
		return paced(ctx, max(1, b.Calls/shorter/2), 0, func() error {
			answer, err := e.take(ctx, permit())
			grants = append(grants, answer.Grant)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return micros, e.GiveBack(ctx, grants)
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
