package engines

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
)

// recorder is a limiter of this library whose callers call Wait, as users do.
// On the side it notes what the engine granted. Which caller took which turn is
// worked out afterwards, from when they went.
type recorder struct {
	*Notes
	limiter fairlimit.Limiter
}

func record(build engine.Builder, s Setup, opts ...fairlimit.Option) (*recorder, error) {
	notes := &Notes{Now: measure.Now}
	opts = append(opts,
		fairlimit.WithEngine(notes.Builder(build)),
		fairlimit.WithTrace(&fairlimit.Trace{Missed: func(int, time.Duration) { notes.miss() }}))
	limiter, err := fairlimit.New(s.Redis, s.Name, s.Quota, opts...)
	return &recorder{notes, limiter}, err
}

func (r *recorder) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	return nil, r.limiter.WaitN(ctx, n)
}

// Take is what users of a queue with units call.
func (r *recorder) Take(ctx context.Context, input, output int) (Settle, error) {
	queue := r.limiter.(*fairlimit.Queue)
	turn, err := queue.Take(ctx, fairlimit.Amounts{"input": input, "output": output})
	return func(ctx context.Context, output int) error {
		return turn.Settle(ctx, fairlimit.Amounts{"output": output})
	}, err
}

// Notes are the turns that an engine grants to one limiter.
type Notes struct {
	Now func() time.Duration

	mu     sync.Mutex
	grants []engine.Grant // all, in order
	all    measure.Told
}

// Told is what was noted so far.
func (n *Notes) Told() measure.Told {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all
}

func (n *Notes) miss() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all.Missed = append(n.all.Missed, n.Now())
}

// asked notes a question with its answers, or that they were lost.
func (n *Notes) asked(requests []engine.Request, answers []engine.Answer, err error, sent time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		for _, r := range requests {
			n.all.Lost += r.N
		}
	}
	replied, last := n.Now(), int64(0)
	for _, a := range answers {
		if a.Granted {
			if a.Grant.At < last {
				n.all.Backwards++
			}
			last = a.Grant.At
			n.grants = append(n.grants, a.Grant)
			n.all.Turns = append(n.all.Turns, measure.Turn{
				Permits: a.Grant.N, Input: a.Grant.Amounts.Of("input"), Output: a.Grant.Amounts.Of("output"),
				Sent: sent, Replied: replied, Wait: a.Wait,
				Slot: a.Grant.At, Decided: a.Grant.At - a.Wait.Microseconds(),
			})
		}
	}
}

// returned notes turns that nobody goes with, before they are given back.
func (n *Notes) returned(grants []engine.Grant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range grants {
		if g.Settles {
			continue
		}
		g.Unused = false
		i := len(n.grants) - 1
		for i >= 0 && n.grants[i] != g {
			i--
		}
		if i < 0 {
			n.all.Strange++
			continue
		}
		n.grants[i] = engine.Grant{} // another one may be alike
		n.all.Returned = append(n.all.Returned, i)
	}
}

// givenBack notes what came of giving them back.
func (n *Notes) givenBack(grants []engine.Grant, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := &n.all.GivenBack
	if err != nil {
		count = &n.all.Lost
	}
	for _, g := range grants {
		*count += g.N
	}
}

// Builder makes engines whose grants are noted.
func (n *Notes) Builder(build engine.Builder) engine.Builder {
	return func(c engine.Config) (engine.Engine, error) {
		e, err := build(c)
		if q, steers := e.(steered); steers {
			return notedQueue{q, noted{e, n}}, err
		}
		return noted{e, n}, err
	}
}

// noted is an engine whose grants are noted.
type noted struct {
	engine.Engine
	notes *Notes
}

func (e noted) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	sent := e.notes.Now()
	answers, err := e.Engine.Take(ctx, requests)
	e.notes.asked(requests, answers, err, sent)
	return answers, err
}

func (e noted) GiveBack(ctx context.Context, grants []engine.Grant) error {
	e.notes.returned(grants)
	err := e.Engine.GiveBack(ctx, grants)
	e.notes.givenBack(grants, err)
	return err
}

// steered is an engine that can be steered, shared by flows, and counts units.
type steered interface {
	engine.Steerer
	engine.Sharer
	engine.Counter
}

// notedQueue is such an engine whose grants are noted.
type notedQueue struct {
	steered
	noted noted
}

func (e notedQueue) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	return e.noted.Take(ctx, requests)
}

func (e notedQueue) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return e.noted.GiveBack(ctx, grants)
}
