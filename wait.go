package fairlimit

import (
	"context"
	"errors"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// waitTurn is the one wait loop: a caller that is granted a turn sleeps until
// it comes; one that is refused for now sleeps and asks again.
func (l *limiter) waitTurn(ctx context.Context, n int) error {
	if err := l.backlog.enter(n); err != nil {
		return err
	}
	defer l.backlog.leave(n)
	request := batch.Request{N: n, MaxWait: l.maxWait}
	request.Deadline, _ = ctx.Deadline()
	var start time.Time
	if l.maxWait != engine.Forever { // a look at the clock is not free
		start = time.Now()
	}
	for {
		reply, err := l.batch.Ask(ctx, request)
		switch {
		case err != nil:
			return err
		case !l.accepts(request, reply):
			return l.refuse(ctx, reply)
		case reply.Wait <= 0 && reply.Granted:
			return nil
		case reply.Granted:
			return l.sleep(ctx, reply.Slot(), reply.Grant)
		}
		if err := l.pause(ctx, reply.Slot()); err != nil {
			return err
		}
		if l.maxWait != engine.Forever {
			request.MaxWait = max(0, l.maxWait-time.Since(start))
		}
	}
}

// accepts reports whether a turn comes in time, or whether asking again makes
// sense after a refusal. If the answer took too long, even a grant can be too
// late.
func (l *limiter) accepts(request batch.Request, reply batch.Reply) bool {
	if !request.Deadline.IsZero() && reply.Slot().After(request.Deadline) {
		return false
	}
	return reply.Granted || reply.Wait <= request.MaxWait && !l.batch.Engine.Queues()
}

// refuse gives back a turn that comes too late, if it was granted.
func (l *limiter) refuse(ctx context.Context, reply batch.Reply) error {
	if reply.Granted {
		l.batch.Abandon(ctx, reply.Grant)
	}
	return &RefusedError{Wait: reply.Wait}
}

// sleep returns nil once the slot has come. A caller whose ctx ends before
// gives back what it was granted.
func (l *limiter) sleep(ctx context.Context, slot time.Time, grant engine.Grant) error {
	if clock.SleepUntil(ctx, slot) == nil {
		return nil
	}
	l.batch.Abandon(ctx, grant)
	return ctxerr.Ended(ctx, "left before the turn came, what was granted is given back")
}

// pause returns nil once asking again makes sense.
func (l *limiter) pause(ctx context.Context, until time.Time) error {
	if clock.SleepUntil(ctx, until) == nil {
		return nil
	}
	return ctxerr.Ended(ctx, "left before the turn came")
}

// reserve is for those who do not wait here: a refusal is final, however short.
// Ctx's deadline bounds the call, not the turn.
func (l *limiter) reserve(ctx context.Context, n int, maxWait time.Duration) (batch.Reply, error) {
	reply, err := l.batch.Ask(ctx, batch.Request{N: n, MaxWait: maxWait})
	if err == nil && !reply.Granted {
		return reply, &RefusedError{Wait: reply.Wait}
	}
	return reply, err
}

// allowNow takes a turn that is due at once, or none.
func (l *limiter) allowNow(ctx context.Context, n int) (bool, error) {
	_, err := l.reserve(ctx, n, 0)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}
