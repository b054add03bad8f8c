package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// Status is how a limiter stood when it was asked.
type Status struct {
	Available int           // permits a caller could take right now without waiting
	Queued    int           // permits granted for the future; 0 for window
	Delay     time.Duration // the wait that one more permit would get now
}

// Status and Reset are not combined: each is a question of its own.

func (l *limiter) Status(ctx context.Context) (Status, error) {
	if ctx.Err() != nil {
		return Status{}, ctxerr.Ended(ctx, "nothing was asked")
	}
	var status engine.Status
	err := within(ctx, func(ctx context.Context) (err error) {
		status, err = l.batch.Engine.Status(ctx)
		return err
	})
	if err != nil {
		return Status{}, err
	}
	return Status(status), nil
}

func (l *limiter) Reset(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxerr.Ended(ctx, "nothing was reset")
	}
	return within(ctx, l.batch.Engine.Reset)
}

// within returns when call does, when ctx ends, or after [batch.AnswerBound],
// whatever timeouts the client was made with. A call that it leaves behind ends
// with the client's own timeouts; what it writes meanwhile must not be read
// after an error.
func within(ctx context.Context, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, batch.AnswerBound, batch.ErrOverdue)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(bounded) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		return batch.ErrOverdue // not the caller's deadline: ours
	case <-bounded.Done():
		if ctx.Err() == nil {
			return batch.ErrOverdue
		}
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctxerr.Ended(ctx, "the call was under way"))
	}
}
