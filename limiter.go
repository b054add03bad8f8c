package fairlimit

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// Limiter shares one quota among everybody who uses its name on the same Redis.
// It may be used by any number of goroutines, holds no connection, timer or
// goroutine while idle, and needs no closing.
//
// Every method checks ctx before it does anything, and returns when ctx ends,
// whatever the client's timeouts are. Errors of Redis are returned, never taken
// for leave to go. A call whose ctx can never end returns when the client gives
// up, or after five seconds if the client's ReadTimeout or WriteTimeout is
// longer than that; where another call has no answer yet, five seconds after
// that one.
type Limiter interface {
	// Wait sleeps until this caller's turn. A turn that would come after ctx's
	// deadline is refused at once with a [*RefusedError] and consumes nothing.
	// A ctx that ends while Wait waits gives the permit back; the error then
	// matches ctx's. Wait stays up to 25 ms for that: if Redis answers within
	// them, the permit is back when Wait returns, and else it goes back later.
	//
	// It costs at most one script run and one sleep on a queueing engine; on
	// window, one of each for every time that it is refused.
	//
	// It never returns before the turn, and on an idle machine about a
	// millisecond after it at most: a Go program that has nothing else to do
	// sleeps, on Linux, in whole milliseconds.
	Wait(ctx context.Context) error

	// WaitN is Wait for n ≥ 1 permits in one turn.
	WaitN(ctx context.Context, n int) error

	// Allow takes a permit now or not at all. It never queues: false changes
	// nothing.
	Allow(ctx context.Context) (bool, error)

	// AllowN is Allow for n ≥ 1 permits.
	AllowN(ctx context.Context, n int) (bool, error)

	// Status reads how things stand. It changes nothing, except that on fair it
	// restores what this Limiter knows that a server has lost.
	Status(ctx context.Context) (Status, error)

	// Reset forgets everything granted: the next caller finds an idle limiter,
	// and those who sleep towards a turn still take it. It also clears a key of
	// another type or of an unreadable state; only the rate that window shares
	// with Redisson stays as it is.
	Reset(ctx context.Context) error
}

// New makes a limiter for the quota, shared by name. It does no I/O.
//
// Several limiters of one name, in one process or in many, are one queue. They
// are meant to be given the same quotas. While they are not, during a rolling
// deploy, every caller is held to its own.
func New(rdb redis.UniversalClient, name string, quota Quota, opts ...Option) (Limiter, error) {
	if engine.NoClient(rdb) {
		return nil, ErrNilClient
	}
	if name == "" {
		return nil, ErrEmptyName
	}
	if err := quota.check(); err != nil {
		return nil, err
	}
	o, err := collect(opts)
	if err != nil {
		return nil, err
	}
	e, fallback, err := o.assemble(rdb, name, quota)
	if err != nil {
		return nil, err
	}
	l := &limiter{
		fallback: fallback,
		backlog:  newBacklog(o.maxQueued),
		maxWait:  o.maxWait,
		batch:    batch.Batcher{Engine: e, Gate: fallback.gate(), Prompt: endsByItself(rdb)},
	}
	if e.Queues() {
		return &reserver{l}, nil
	}
	return l, nil
}

// limiter is the front: it holds the parts that a call goes through, in the
// order in which it does. Package documentation tells the life of one Wait.
type limiter struct {
	fallback *fallback // nil without one
	backlog  *backlog  // nil without a bound
	maxWait  time.Duration
	batch    batch.Batcher
}

var _ Limiter = (*limiter)(nil)

func (l *limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

func (l *limiter) WaitN(ctx context.Context, n int) error {
	if err := l.check(ctx, n); err != nil {
		return err
	}
	if l.fallback == nil {
		return l.waitTurn(ctx, n)
	}
	return l.fallback.wait(ctx, n, l.waitTurn)
}

func (l *limiter) Allow(ctx context.Context) (bool, error) { return l.AllowN(ctx, 1) }

func (l *limiter) AllowN(ctx context.Context, n int) (bool, error) {
	if err := l.check(ctx, n); err != nil {
		return false, err
	}
	if l.fallback == nil {
		return l.allowNow(ctx, n)
	}
	return l.fallback.allow(ctx, n, l.allowNow)
}

// check returns the error of a call that never goes further.
func (l *limiter) check(ctx context.Context, n int) error {
	if ctx.Err() != nil {
		return ctxerr.Ended(ctx, "nothing was consumed")
	}
	if n < 1 {
		return fmt.Errorf("%w: %d asked for, want at least 1", ErrInvalidPermits, n)
	}
	return l.batch.Engine.Fits(n)
}

// endsByItself reports whether the client ends, within [batch.AnswerBound],
// what Redis leaves unanswered. Where it does not, even a caller that nothing
// else hurries must be able to leave its question behind.
func endsByItself(rdb redis.UniversalClient) bool {
	var read, write time.Duration
	switch c := rdb.(type) {
	case *redis.Client:
		read, write = c.Options().ReadTimeout, c.Options().WriteTimeout
	case *redis.ClusterClient:
		read, write = c.Options().ReadTimeout, c.Options().WriteTimeout
	case *redis.Ring:
		read, write = c.Options().ReadTimeout, c.Options().WriteTimeout
	}
	return min(read, write) > 0 && max(read, write) <= batch.AnswerBound
}
