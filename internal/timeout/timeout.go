// Package timeout ends calls to Redis in time, whatever timeouts the client was
// made with.
package timeout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// Answer is how long Redis may take to answer a call, whoever waits for it. One
// lost answer holds up what waits behind it for that long at most, or for the
// client's ReadTimeout, whichever is shorter.
const Answer = 5 * time.Second

// ErrOverdue is the error of those whose call had no answer in time. It does not
// match context.DeadlineExceeded: nobody's own deadline has passed.
var ErrOverdue = fmt.Errorf("%w: no answer within %v", engine.ErrOutcomeUnknown, Answer)

// Call returns what call returns. If ctx ends first, or [Answer]
// passes, it returns an error that matches [engine.ErrOutcomeUnknown], and ctx's
// if that has ended.
//
// The ctx that call gets ends with Call. What call does in spite of that ends
// with the client's own timeouts, and so does its goroutine.
func Call[T any](ctx context.Context, call func(context.Context) (T, error)) (answer T, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, Answer, ErrOverdue)
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
			return answer, ErrOverdue // not the caller's deadline: ours
		}
		return r.answer, r.err
	case <-bounded.Done():
		if ctx.Err() == nil {
			return answer, ErrOverdue
		}
		return answer, fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, ctxerr.Ended(ctx, "the call was under way"))
	}
}

// Do is [Call] for a call that returns nothing but an error.
func Do(ctx context.Context, call func(context.Context) error) error {
	_, err := Call(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}
