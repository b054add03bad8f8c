package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// Status is the state of a limiter at the moment at which it was asked.
type Status struct {
	Available int           // permits a caller could take now without waiting; 0 during a pause
	Queued    int           // permits granted for the future; 0 for window
	Delay     time.Duration // how long one more permit would have to wait, with the rest of a pause
	Paused    time.Duration // how much longer the queue is paused, see [Queue.Pause]
}

// Status and Reset are not combined: each is a question of its own.

// Status reads the state of the limiter: see [Limiter].
func (l *limiter) Status(ctx context.Context) (Status, error) {
	if err := ready(ctx, "nothing was asked"); err != nil {
		return Status{}, l.named(err)
	}
	status, err := within(ctx, l.batch.Engine.Status)
	return Status(status), l.named(err)
}

// Reset forgets everything granted and ends a pause: see [Limiter]. Stored
// quotas stay.
func (l *limiter) Reset(ctx context.Context) error {
	if err := ready(ctx, "nothing was reset"); err != nil {
		return l.named(err)
	}
	_, err := within(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.batch.Engine.Reset(ctx)
	})
	if err == nil {
		l.turns.Free()
	}
	return l.named(err)
}

// within returns what call does when it does, or an error when ctx ends, or
// after [batch.AnswerBound], whatever timeouts the client was made with. A call
// that it leaves behind ends with the client's own timeouts.
func within[T any](ctx context.Context, call func(context.Context) (T, error)) (answer T, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, batch.AnswerBound, batch.ErrOverdue)
	defer cancel()
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := call(bounded)
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		if errors.Is(r.err, context.DeadlineExceeded) && ctx.Err() == nil {
			return answer, batch.ErrOverdue // not the caller's deadline: ours
		}
		return r.answer, r.err
	case <-bounded.Done():
		if ctx.Err() == nil {
			return answer, batch.ErrOverdue
		}
		return answer, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctxerr.Ended(ctx, "the call was under way"))
	}
}
