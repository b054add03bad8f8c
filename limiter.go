package fairlimit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/line"
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
// error, and nobody goes. A question to Redis ends with the client's ReadTimeout,
// and after five seconds at the latest.
type Limiter interface {
	// Wait sleeps until this caller's turn. If the turn would come after ctx's
	// deadline, Wait returns a [*RefusedError] at once, and nothing is consumed.
	// If ctx ends while Wait waits, the permit goes back, and the error matches
	// ctx's. If Redis is away then, the permit passes unused.
	//
	// On fair a turn costs one script run and one sleep. While callers sleep,
	// their Limiter reads twice a second. If the queue was requeued or reset, or
	// the turn was missed, the caller asks again. On window each refusal costs one
	// script run and one sleep.
	//
	// Wait never returns before the turn. On an idle machine it returns at most
	// about a millisecond after it: an idle Go program on Linux sleeps in whole
	// milliseconds.
	Wait(ctx context.Context) error

	// WaitN is Wait for n ≥ 1 permits in one turn.
	WaitN(ctx context.Context, n int) error

	// Allow takes a permit now or not at all. If it returns false, nothing has
	// changed: Allow never queues. It returns false during a pause, and for a
	// second after a requeue of callers that wait.
	Allow(ctx context.Context) (bool, error)

	// AllowN is Allow for n ≥ 1 permits.
	AllowN(ctx context.Context, n int) (bool, error)

	// Status reads the state of the limiter, and changes nothing. During a pause,
	// Available is 0, and Delay includes what is left of the pause.
	Status(ctx context.Context) (Status, error)

	// Reset forgets everything granted and ends a pause: the next caller finds an
	// idle limiter. It also clears a key that holds something else. Stored quotas,
	// and the rate that window shares with Redisson, stay.
	//
	// On fair it is a [Queue.Requeue] as well: callers that sleep ask again, in
	// order, within a second. On window a sleeping caller does not hear of it.
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
	if err := quota.check(); err != nil {
		return nil, naming.Of(name, err)
	}
	return build(rdb, name, quota, opts)
}

// build makes a limiter of a quota that was checked.
func build(rdb redis.UniversalClient, name string, quota Quota, opts []Option) (Limiter, error) {
	if engine.IsNil(rdb) {
		return nil, ErrNilClient
	}
	if name == "" {
		return nil, ErrEmptyName
	}
	o, err := collect(opts)
	if err != nil {
		return nil, naming.Of(name, err)
	}
	l, err := o.limiter(rdb, name, quota)
	if err != nil {
		return nil, naming.Of(name, err)
	}
	if l.queue != nil {
		return &Queue{l}, nil
	}
	return l, nil
}

// limiter is the front of an engine: it lines callers up, and they sleep.
type limiter struct {
	name     string
	rdb      redis.UniversalClient
	engine   engine.Engine
	queue    engine.Queue // the engine, nil if it grants no turns ahead
	line     *line.Line
	sleepers *turns.Sleepers
	maxWait  time.Duration // 0: any
	patience time.Duration // for an answer
	trace    *Trace        // never nil
	own      []Quota       // its quotas, nil if stored ones may take their place
	answered *atomic.Bool  // Redis has answered before
}

var _ Limiter = (*limiter)(nil)

// limiter builds the engine, and a limiter in front of it.
func (o *options) limiter(rdb redis.UniversalClient, name string, quota Quota) (*limiter, error) {
	e, err := o.build(engine.Config{
		Client: rdb, Name: name, Prefix: o.prefix,
		Quota: engine.Quota(quota), Extra: o.extra, Units: o.units, Guard: o.guard, Stored: o.stored,
	})
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, fmt.Errorf("%w: WithEngine: the builder made no engine", ErrInvalidOption)
	}
	queue, queues := e.(engine.Queue)
	switch {
	case !queues && o.flow != "":
		return nil, fmt.Errorf("%w: WithFlow needs turns granted ahead", ErrUnsupported)
	case o.flow != "":
		queue = queue.Flow(o.flow, o.weight)
		e = queue
	}
	l := &limiter{
		name: name, rdb: rdb, queue: queue, maxWait: o.maxWait, patience: timeout.Of(rdb), trace: o.trace,
		sleepers: &turns.Sleepers{Patience: timeout.Of(rdb)}, answered: new(atomic.Bool),
	}
	if queues {
		l.sleepers.Look = l.look
	}
	if quota != (Quota{}) && !o.stored {
		l.own = append(l.own, quota)
		for _, extra := range o.extra {
			l.own = append(l.own, Quota(extra))
		}
	}
	l.lineBefore(e, o.retry)
	return l, nil
}

// lineBefore lets callers stand in a new line before an engine.
func (l *limiter) lineBefore(e engine.Engine, retry bool) {
	l.engine = traced{e, l.trace}
	l.line = &line.Line{Engine: l.engine, Patience: l.patience, Heard: l.hear, Away: away, Retry: retry}
}

// hear is told the news of each answer.
func (l *limiter) hear(n *engine.News) {
	l.answered.Store(true)
	l.sleepers.Hear(n)
	if n.Restored && l.trace.Lost != nil {
		l.trace.Lost()
	}
}

func (l *limiter) look(ctx context.Context) (n engine.News, err error) {
	err = l.trace.asks("look", 1, func() error {
		n, err = l.queue.Look(ctx)
		return err
	})
	return n, err
}

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
func (l *limiter) waitN(ctx context.Context, n int) (turn engine.Turn, err error) {
	if err = l.check(ctx, n); err == nil {
		turn, err = l.waitForTurn(ctx, n, "")
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

// allowN is AllowN, and returns the turn.
func (l *limiter) allowN(ctx context.Context, n int) (turn engine.Turn, ok bool, err error) {
	if err = l.check(ctx, n); err == nil {
		turn, ok, err = l.turnNow(ctx, n)
	}
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
	return l.engine.Fits(n, "")
}

// named says of which limiter an error is, and where Redis was looked for. A
// refusal stays one as it is.
func (l *limiter) named(err error) error {
	if err == nil {
		return nil
	}
	if r, ok := err.(*RefusedError); ok {
		r.limiter = l.name
		return r
	}
	return naming.Of(l.name, whereis.Of(l.rdb, err, l.answered.Load()))
}

// Status is the state of a limiter at the moment at which it was asked. Callers of
// a flow that wait for room in its share are not in it: see [WithFlow].
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

// Status reads the state of the limiter: see [Limiter].
func (l *limiter) Status(ctx context.Context) (Status, error) {
	status, err := call(ctx, l, "nothing was asked", "status", l.engine.Status)
	return Status(status), err
}

// Reset forgets everything granted and ends a pause: see [Limiter]. Stored
// quotas stay.
func (l *limiter) Reset(ctx context.Context) error {
	return l.steer(ctx, "nothing was reset", "reset", l.engine.Reset)
}

// call asks something that is not combined, and tells the trace. If ctx has ended,
// means says what that means.
func call[T any](
	ctx context.Context, l *limiter, means, op string, ask func(context.Context) (T, error),
) (answer T, err error) {
	if err = ready(ctx, means); err == nil {
		err = l.trace.asks(op, 1, func() error {
			answer, err = timeout.Call(ctx, l.patience, ask)
			return err
		})
	}
	return answer, l.named(err)
}

// steer is call for a question that changes turns: whoever sleeps hears of it at once.
func (l *limiter) steer(
	ctx context.Context, means, op string, ask func(context.Context) (engine.News, error),
) error {
	news, err := call(ctx, l, means, op, ask)
	if err == nil {
		l.hear(&news)
	}
	return err
}
