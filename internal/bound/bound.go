// Package bound ends calls to Redis in time, whatever timeouts the client was
// made with.
package bound

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// Call returns what call returns. If ctx ends first, or [batch.AnswerBound]
// passes, it returns an error that matches [engine.ErrOutcomeUnknown], and ctx's
// if that has ended.
//
// The ctx that call gets ends with Call. What call does in spite of that ends
// with the client's own timeouts, and so does its goroutine.
func Call[T any](ctx context.Context, call func(context.Context) (T, error)) (answer T, err error) {
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
		return answer, fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, ctxerr.Ended(ctx, "the call was under way"))
	}
}
