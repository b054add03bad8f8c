package engines

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/turns"
)

// recorder is a limiter of this library whose callers call Wait, as users do,
// and which notes on the side what the engine told each of them, and which turn
// each of them took.
//
// The limiter puts the questions of many callers into one, so the recorder must
// know a caller by its request. Each caller's ctx has a deadline that no
// other's has: its own, or one weeks ahead. The limiter turns it into the
// request's MaxWait. The ctx of the question is that of its first caller.
// Together they tell who asks. The engine then gets the question that it would
// get without the recorder.
type recorder struct {
	limiter fairlimit.Limiter
	notes   *notes
}

func record(
	build engine.Builder, rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration,
	opts ...fairlimit.Option,
) (*recorder, error) {
	notes := newNotes(now, l.Guard/2)
	opts = append(opts,
		fairlimit.WithEngine(func(c engine.Config) (engine.Engine, error) {
			e, err := build(c)
			if err != nil {
				return nil, err
			}
			return notes.on(e), nil
		}),
		fairlimit.WithTrace(&fairlimit.Trace{
			Taken:  func(int, time.Duration, bool) {}, // or a caller does not hear what it took
			Missed: func(permits int, _ time.Duration) { notes.miss(permits) },
		}))
	limiter, err := fairlimit.New(rdb, name, fairlimit.Quota(l.Quota), opts...)
	if err != nil {
		return nil, err
	}
	return &recorder{limiter: limiter, notes: notes}, nil
}

func (r *recorder) Acquire(ctx context.Context, caller, n int) (*measure.Turn, error) {
	deadline, impatient := ctx.Deadline()
	tag := nameTag{Context: ctx, at: r.notes.enter(caller, deadline, impatient)}
	watched := turns.Watch(tag, func(slot time.Time, took engine.Grant) {
		r.notes.take(caller, took, r.notes.now()+time.Until(slot))
	})
	err := r.limiter.WaitN(watched, n)
	return r.notes.leave(caller, tag.at), err
}

// Misses are the turns that this process has missed so far.
func (r *recorder) Misses() measure.Misses { return r.notes.misses() }

// nameTag is a ctx with a deadline that tells who asks. It has no timer of its
// own, only that of the ctx under it.
type nameTag struct {
	context.Context
	at time.Time
}

func (t nameTag) Deadline() (time.Time, bool) { return t.at, true }

// tagged is the key under which a nameTag's ctx holds its deadline.
type tagged struct{}

func (t nameTag) Value(key any) any {
	if key == (tagged{}) {
		return t.at
	}
	return t.Context.Value(key)
}

// noted is an engine whose grants are noted.
type noted struct {
	engine.Engine
	notes *notes
}

// notedSteerer is one whose queue can be steered.
type notedSteerer struct {
	engine.Steerer
	noted noted
}

// notedSharer is one that shares its queue between flows as well.
type notedSharer struct {
	notedSteerer
	sharer engine.Sharer
}

func (e notedSharer) AtBest(permits int) time.Duration { return e.sharer.AtBest(permits) }

// on is the engine with what it grants noted.
func (n *notes) on(e engine.Engine) engine.Engine {
	plain := noted{e, n}
	steerer, steers := e.(engine.Steerer)
	sharer, shares := e.(engine.Sharer)
	switch {
	case steers && shares:
		return notedSharer{notedSteerer{steerer, plain}, sharer}
	case steers:
		return notedSteerer{steerer, plain}
	}
	return plain
}

func (e notedSteerer) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	return e.noted.Take(ctx, requests)
}

func (e noted) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	plain, callers := e.notes.read(ctx, requests)
	sent := e.notes.now()
	answers, err := e.Engine.Take(ctx, plain)
	replied := e.notes.now()
	told := make([]time.Duration, len(answers))
	for i, a := range answers {
		told[i] = a.Wait
	}
	delay(ctx, answers, callers)
	for i, a := range answers {
		e.notes.put(callers[i], a, measure.Turn{Sent: sent, Replied: replied, Wait: told[i]})
	}
	return answers, err
}

// Lateness says how late the caller's timer for a wait of in goes off.
type Lateness func(caller int, in time.Duration) time.Duration

type latenessKey struct{}

// WithLateness makes timers late. It is for a simulation, whose timers are not
// late by themselves.
func WithLateness(ctx context.Context, late Lateness) context.Context {
	return context.WithValue(ctx, latenessKey{}, late)
}

// delay lets every caller wait for longer than it was told to.
func delay(ctx context.Context, answers []engine.Answer, callers []int) {
	late, simulated := ctx.Value(latenessKey{}).(Lateness)
	if !simulated {
		return
	}
	for i := range answers {
		if callers[i] != nobody {
			answers[i].Wait += late(callers[i], answers[i].Wait)
		}
	}
}
