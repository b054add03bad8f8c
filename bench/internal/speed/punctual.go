package speed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// late is what one call in a hundred may be, in ms, on a machine that has
// nothing else to do.
const late = 1.5

// between two slots; half of it goes by before the next call.
const between = 20 * time.Millisecond

// punctual is how long after its slot a call returns, in a process that does
// nothing else.
func punctual(ctx context.Context, b *bed) ([]Figure, error) {
	w := &watch{}
	limiter, err := b.limiter(fairlimit.Every(between), fairlimit.WithEngine(w.build))
	if err != nil {
		return nil, err
	}
	if err := limiter.Wait(ctx); err != nil { // which has nothing to wait for
		return nil, err
	}
	var ours, timers []int64 // µs
	early := 0
	for range b.Calls {
		if err := limiter.Wait(ctx); err != nil {
			return nil, err
		}
		returned := time.Now()
		if w.waited { // else a slot that had passed was taken
			ours = append(ours, returned.Sub(w.latest).Microseconds())
		}
		if returned.Before(w.earliest) {
			early++
		}
		nap := between/2 + rand.N(between/5) // no whole number of ms, for either of the two
		due := time.Now().Add(nap)
		time.Sleep(nap)
		timers = append(timers, time.Since(due).Microseconds())
	}
	if len(ours) == 0 {
		return nil, errors.New("nobody had to wait: the machine is too busy")
	}
	var figures []Figure
	for _, q := range []struct {
		what string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		f := Figure{
			What: "Wait returns after its slot, " + q.what, Unit: "ms", Ours: float64(quantile(ours, q.at)) / 1e3,
		}
		f = f.besideOne("time.Sleep after its time, "+q.what, float64(quantile(timers, q.at))/1e3)
		if q.what == "p99" {
			f = f.against(oursAtMost(late))
			if *f.Known > late {
				f.Note = "time.Sleep itself is later than the goal allows: the machine is busy"
			}
		}
		figures = append(figures, f)
	}
	none := Figure{What: fmt.Sprintf("early, of %d", b.Calls), Ours: float64(early)}
	return append(figures, none.against(oursAtMost(0))), nil
}

// watch notes between which moments the slot of a process's only caller lies.
// It keeps when the question was sent, when it was answered, and the wait. The
// caller's goroutine reads them after its call has returned; by then they are
// written.
type watch struct {
	earliest, latest time.Time
	waited           bool
}

func (w *watch) build(cfg engine.Config) (engine.Engine, error) {
	e, err := fair.New(cfg)
	return watched{e, w}, err
}

type watched struct {
	engine.Engine
	*watch
}

func (w watched) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	sent := time.Now()
	answers, err := w.Engine.Take(ctx, requests)
	if err == nil && len(answers) != 1 {
		err = errors.New("one caller, and not one answer")
	}
	if err != nil {
		return nil, err
	}
	wait := answers[0].Wait
	w.earliest, w.latest, w.waited = sent.Add(wait), time.Now().Add(wait), wait > 0
	return answers, nil
}
