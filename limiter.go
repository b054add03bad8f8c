package fairlimit

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/breaker"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/timeout"
	"github.com/fairlimit/fairlimit/internal/turns"
	"github.com/fairlimit/fairlimit/internal/whereis"
)

// Limiter shares one quota among all programs that use its name on the same
// Redis. Any number of goroutines may use it. While idle it holds no connection,
// timer or goroutine, and it needs no closing.
//
// Every method checks ctx before it does anything, and returns when ctx ends,
// whatever the client's timeouts are. If Redis fails, the method returns the
// error, and nobody goes. If ctx never ends, a question to Redis ends when the
// client gives up, and after five seconds at the latest. A caller may have lined
// up behind such a question, and behind permits that are given back after it. So
// without a deadline it may wait up to fifteen seconds for its answer.
type Limiter interface {
	// Wait sleeps until this caller's turn. If the turn would come after ctx's
	// deadline, Wait returns a [*RefusedError] at once, and nothing is consumed.
	// If ctx ends while Wait waits, the permit goes back, and the error matches
	// ctx's. Wait stays up to 25 ms for that, with the answer to a question that
	// is under way. If Redis takes longer, the permit goes back after Wait has
	// returned. If Redis is away, the permit passes unused.
	//
	// On fair a turn costs one script run and one sleep. Callers that slept for
	// longer than [WithPauseWithin] share one more read. If the queue was reset
	// or the turn was missed, the caller asks again. On window each refusal
	// costs one script run and one sleep.
	//
	// Wait never returns before the turn. On an idle machine it returns at most
	// about a millisecond after it: an idle Go program on Linux sleeps in whole
	// milliseconds.
	Wait(ctx context.Context) error

	// WaitN is Wait for n ≥ 1 permits in one turn.
	WaitN(ctx context.Context, n int) error

	// Allow takes a permit now or not at all. If it returns false, nothing has
	// changed: Allow never queues. During a pause it returns false, and if the
	// answer took so long that the turn may have passed: see [WithMaxLateness].
	Allow(ctx context.Context) (bool, error)

	// AllowN is Allow for n ≥ 1 permits.
	AllowN(ctx context.Context, n int) (bool, error)

	// Status reads the state of the limiter. It changes nothing, with one
	// exception: on fair, it restores turns that this Limiter knows of and the
	// server has lost. During a pause, Available is 0, and Delay includes what
	// is left of the pause.
	Status(ctx context.Context) (Status, error)

	// Reset forgets everything granted and ends a pause: the next caller finds
	// an idle limiter. It also clears a key that holds something else. Stored
	// quotas, and the rate that window shares with Redisson, stay as they are.
	//
	// On fair, callers that sleep towards a turn line up again, in the order of
	// their old turns, once their Limiter hears of the Reset. This Limiter hears
	// of it at once. Others hear of it with the next answer to any of their
	// callers, at the latest shortly before the old turn. On window a sleeping
	// caller does not hear of it: it asks again when its sleep is over.
	Reset(ctx context.Context) error
}

// New makes a limiter for the quota. It does no I/O.
//
// All limiters of one name, in one process or in many, share one quota. Give all
// of them the same. If quotas differ, as during a rolling deploy, the engine
// decides which holds. On fair each caller is held to its own quotas, counted
// over the calls of all. On window the rate that is stored in Redis holds for
// everybody, and the quota given here only sets it if there is none.
//
// On an engine that grants turns ahead, as fair does, the Limiter is a
// [*Queue].
func New(rdb redis.UniversalClient, name string, quota Quota, opts ...Option) (Limiter, error) {
	needsFlow := func(o *options) {
		if o.lookAhead > 0 && o.flow == "" {
			o.refuse("WithLookAhead without WithFlow has no effect; for Queue.Flow there is NewQueue")
		}
	}
	return build(rdb, name, quota, quota.check, append(slices.Clip(opts), needsFlow))
}

// build makes a limiter of a quota that passes the check.
func build(
	rdb redis.UniversalClient, name string, quota Quota, check func() error, opts []Option,
) (Limiter, error) {
	if engine.NoClient(rdb) {
		return nil, ErrNilClient
	}
	if name == "" {
		return nil, ErrEmptyName
	}
	if err := check(); err != nil {
		return nil, naming.Of(name, err)
	}
	o, err := collect(opts)
	if err != nil {
		return nil, naming.Of(name, err)
	}
	l := &limiter{
		parts: &parts{name: name, rdb: rdb, maxWait: o.maxWait, trace: o.trace},
		flow:  &flow{backlog: newBacklog(o.maxQueued)},
	}
	if err := l.assemble(o, rdb, name, quota); err != nil {
		return nil, l.named(err)
	}
	if l.asker.Engine.Queues() {
		return &Queue{l}, nil
	}
	return l, nil
}

// limiter is the front. CONTRIBUTING.md tells the life of one Wait.
type limiter struct {
	*parts
	*flow
	only string // the id, if what steers it is for its flow alone: see [Queue.Flow]
}

// flow is what a flow has of its own, and a limiter without one as well.
type flow struct {
	backlog *backlog       // nil without a bound
	line    *coalesce.Line // nil without a flow
}

// parts are what all flows of a limiter share: what a call goes through, in the
// order in which it does.
type parts struct {
	name     string
	fallback *fallback // nil without one
	maxWait  time.Duration
	flows    flows
	asker    coalesce.Asker
	sleepers turns.Sleepers
	pauses   *pauses                   // nil if the engine cannot be steered
	steer    engine.Steerer            // the engine, nil if it cannot be steered
	count    engine.Counter            // the engine, nil if it counts calls only
	own      []Quota                   // that hold whatever is stored, nil if the engine has to say
	trace    *Trace                    // never nil
	differed atomic.Pointer[time.Time] // when an answer last said that quotas differ

	rdb      redis.UniversalClient
	answered atomic.Bool // news of the queue have come
}

var _ Limiter = (*limiter)(nil)

// What follows is documented for [Queue] as well: it shows these methods as its
// own.

// Wait sleeps until this caller's turn: see [Limiter]. If the turn would come
// after ctx's deadline, it returns a [*RefusedError] at once.
func (l *limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN is Wait for n ≥ 1 permits in one turn.
func (l *limiter) WaitN(ctx context.Context, n int) error {
	_, err := l.waitN(ctx, n)
	return err
}

// waitN is WaitN, and returns the turn.
func (l *limiter) waitN(ctx context.Context, n int) (turn *Turn, err error) {
	if err = l.check(ctx, n); err == nil {
		turn, err = l.take(ctx, n, "")
	}
	return turn, l.named(err)
}

// Allow takes a permit now or not at all: see [Limiter]. It returns false during
// a pause.
func (l *limiter) Allow(ctx context.Context) (bool, error) { return l.AllowN(ctx, 1) }

// AllowN is Allow for n ≥ 1 permits.
func (l *limiter) AllowN(ctx context.Context, n int) (bool, error) {
	_, ok, err := l.allowN(ctx, n)
	return ok, err
}

// allowN is AllowN, and returns the turn, nil if a fallback gave it.
func (l *limiter) allowN(ctx context.Context, n int) (turn *Turn, ok bool, err error) {
	if err := l.check(ctx, n); err != nil {
		return nil, false, l.named(err)
	}
	ok, err = l.fallback.allow(ctx, n, func() (bool, error) {
		turn, err = l.takeNow(ctx, n)
		return turn != nil, err
	})
	l.trace.refused(n, err)
	return turn, ok, l.named(err)
}

// ready returns an error if ctx has ended, or is nil, and what that means.
func ready(ctx context.Context, means string) error {
	if ctx == nil {
		return ErrNilContext
	}
	if ctx.Err() != nil {
		return ctxerr.Ended(ctx, means)
	}
	return nil
}

// check returns the error of a call that never goes further.
func (l *limiter) check(ctx context.Context, n int) error {
	if err := ready(ctx, "nothing was consumed"); err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("%w: %d asked for, want at least 1", ErrInvalidPermits, n)
	}
	return l.asker.Engine.Fits(n)
}

// assemble makes the engine, in layers, each of which sees what the one below
// it answers:
//
//	watched     tells the breaker how questions end   WithFallback
//	replicated  gives back what is not replicated     WithReplicas
//	traced      tells the trace                       WithTrace
//	the engine  decides                               WithEngine
//
// What steers a queue goes to the engine itself: Redis is asked for it whatever
// happens, and it waits for no replica.
func (l *limiter) assemble(o *options, rdb redis.UniversalClient, name string, quota Quota) error {
	if err := o.canReplicate(rdb); err != nil {
		return err
	}
	e, err := o.build(engine.Config{
		Client: rdb, Name: name, Prefix: o.prefix,
		Quota: engine.Quota(quota), Extra: o.extra, Guard: o.guard, OwnGuard: !o.guarded,
		Units: o.units, Replicas: o.replicas, Stored: o.stored, Heard: l.hear,
	})
	if err != nil {
		return err
	}
	if e == nil {
		return fmt.Errorf("%w: WithEngine: the builder made no engine", ErrInvalidOption)
	}
	// The engine refuses values. What needs another interface is refused here, of
	// the bare engine: the layers below do not have it.
	steerer, _ := e.(engine.Steerer)
	if steerer == nil && (o.steers || o.stored) {
		return fmt.Errorf("%w: WithPauseWithin, WithMaxLateness and WithStoredQuota need turns granted ahead",
			ErrUnsupported)
	}
	if l.count, _ = e.(engine.Counter); l.count == nil && len(o.units) > 0 {
		return fmt.Errorf("%w: WithUnit, because it counts calls only", ErrUnsupported)
	}
	if err := l.share(o, e); err != nil {
		return err
	}
	e = traced{e, o.trace}
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
	read := func(ctx context.Context) error { _, err := l.status(ctx); return err }
	var opens *breaker.Breaker
	if o.fallback != nil {
		opens = breaker.New(read)
		opens.Changed = o.trace.FellBack
		e, l.fallback = watched{e, opens}, &fallback{o.fallback, opens, &l.sleepers}
	}
	l.asker = coalesce.Asker{Engine: e, Breaker: opens, Answered: l.sleepers.Answered}
	if o.retry {
		l.asker.Away, l.asker.Probe = away, read
	}
	return nil
}

// steering makes what holds callers that sleep.
func (l *limiter) steering(o *options, steerer engine.Steerer) {
	l.sleepers.Asker, l.sleepers.Taken, l.sleepers.Missed = &l.asker, o.trace.Taken, o.trace.Missed
	if steerer != nil {
		l.steer, l.sleepers.Within, l.sleepers.Look = steerer, o.pauseWithin, o.trace.asks("look", steerer.Look)
		l.sleepers.MaxLateness = o.lateness()
		l.pauses = &pauses{
			engine: steerer, sleepers: &l.sleepers, trace: o.trace, sending: make(chan struct{}, 1),
		}
	}
}

// hear is told the news of each answer that brings some.
func (l *limiter) hear(n *engine.News) {
	l.answered.Store(true)
	l.sleepers.Hear(n)
	if n.Lost && l.trace.Lost != nil {
		l.trace.Lost()
	}
	if n.Differs {
		l.trace.differ(&l.differed, n.Arrived, l.own)
	}
}

// named says of which limiter an error is, and where Redis was looked for. A
// refusal stays one as it is.
func (l *limiter) named(err error) error {
	if err == nil {
		return nil // to look what an error is allocates
	}
	if r, ok := err.(*RefusedError); ok {
		r.limiter = l.name
		return r
	}
	return naming.Of(l.name, whereis.Of(l.rdb, err, l.answered.Load()))
}

// Status is the state of a limiter at the moment at which it was asked. With
// flows it says nothing of those who wait in line for room in the look-ahead,
// so Delay is not how long one more caller would wait: see [WithFlow].
type Status struct {
	Available int           // permits a caller could take now without waiting; 0 during a pause
	Queued    int           // permits granted for the future; 0 for window
	Delay     time.Duration // how long one more permit would have to wait, with the rest of a pause
	Paused    time.Duration // how much longer the queue is paused, see [Queue.Pause]

	// Units has each unit of [WithUnit], nil without any. Available and Queued
	// above are those of calls. Delay is that of a turn of one call and nothing
	// else.
	Units map[string]UnitStatus
}

// Status and Reset are not combined: each is a question of its own.

// Status reads the state of the limiter: see [Limiter].
func (l *limiter) Status(ctx context.Context) (Status, error) {
	if err := ready(ctx, "nothing was asked"); err != nil {
		return Status{}, l.named(err)
	}
	status, err := timeout.Call(ctx, l.status)
	if err == nil && l.only != "" {
		err = timeout.Do(ctx, func(ctx context.Context) error { return l.flowStatus(ctx, &status) })
	}
	if err != nil {
		return Status{}, l.named(err)
	}
	return Status(status), nil
}

func (p *parts) status(ctx context.Context) (engine.Status, error) {
	began := time.Now()
	status, err := p.asker.Engine.Status(ctx)
	p.trace.asked("status", 1, began, err)
	return status, err
}

// Reset forgets everything granted and ends a pause: see [Limiter]. Stored
// quotas stay.
func (l *limiter) Reset(ctx context.Context) error {
	if err := ready(ctx, "nothing was reset"); err != nil {
		return l.named(err)
	}
	asked := time.Now()
	err := timeout.Do(ctx, l.trace.asks("reset", l.asker.Engine.Reset))
	if err == nil {
		l.sleepers.Free(asked)
	}
	return l.named(err)
}
