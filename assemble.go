package fairlimit

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/breaker"
)

// assemble makes the engine, in layers, each of which sees what the one below
// it answers:
//
//	watched     tells the breaker how questions end   WithFallback
//	replicated  gives back what is not replicated     WithReplicas
//	traced      tells the trace                       WithTrace
//	the engine  decides                               WithEngine
//
// What steers a queue goes to the engine by way of the trace only: Redis is
// asked for it whatever happens, and it waits for no replica.
func (l *limiter) assemble(o *options, rdb redis.UniversalClient, name string, quota Quota) error {
	if err := o.canReplicate(rdb); err != nil {
		return err
	}
	e, err := o.build(engine.Config{
		Client: rdb, Name: name, Prefix: o.prefix,
		Quota: engine.Quota(quota), Extra: o.extra, Guard: o.guard, OwnGuard: !o.guarded,
		Replicas: o.replicas, Stored: o.stored, Heard: l.hear,
	})
	if err != nil {
		return err
	}
	if e == nil {
		return fmt.Errorf("%w: WithEngine: the builder made no engine", ErrInvalidOption)
	}
	steerer, _ := e.(engine.Steerer)
	if steerer == nil && (o.steers || o.stored) {
		return fmt.Errorf("%w: WithPauseWithin, WithMaxLateness and WithStoredQuota need turns granted ahead",
			ErrUnsupported)
	}
	if err := l.share(o, e); err != nil {
		return err
	}
	if o.trace != nil {
		e, steerer = o.trace.watch(e, steerer)
	}
	l.steering(o, steerer)
	if quota != (Quota{}) && !o.stored {
		l.own = []Quota{quota}
		for _, extra := range o.extra {
			l.own = append(l.own, Quota(extra))
		}
	}
	if o.replicas > 0 {
		e = replicated{e}
	}
	read := func(ctx context.Context) error { _, err := e.Status(ctx); return err }
	if o.fallback != nil {
		b := breaker.New(read)
		if o.trace != nil {
			b.Changed = o.trace.FellBack
		}
		e, l.fallback = watched{e, b}, &fallback{o.fallback, b, &l.turns}
	}
	l.batch = batch.Batcher{Engine: e, Gate: l.fallback.gate()}
	l.batch.HeedsCtx, l.batch.Prompt = endsCalls(rdb)
	if o.retry {
		l.batch.Away, l.batch.Probe = away, read
	}
	return nil
}

// steering makes what holds callers that sleep.
func (l *limiter) steering(o *options, steerer engine.Steerer) {
	l.turns.Batch = &l.batch
	if o.trace != nil {
		l.turns.Taken, l.turns.Missed, l.pauses.paused = o.trace.Taken, o.trace.Missed, o.trace.Paused
	}
	if steerer != nil {
		l.steer, l.turns.Within, l.turns.Look = steerer, o.pauseWithin, steerer.Look
		l.turns.MaxLateness = o.lateness()
		l.pauses.engine, l.pauses.turns = steerer, &l.turns
	}
}

// hear is told the news of every answer.
func (l *limiter) hear(n *engine.News) {
	if !l.answered.Load() {
		l.answered.Store(true)
	}
	l.turns.Hear(n)
	if n.Lost && l.trace != nil && l.trace.Lost != nil {
		l.trace.Lost()
	}
	if n.Differs && l.trace != nil && l.trace.QuotasDiffer != nil && l.strange.begins(n.Arrived) {
		l.trace.QuotasDiffer(slices.Clone(l.own))
	}
}
