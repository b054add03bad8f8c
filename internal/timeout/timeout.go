// Package timeout ends calls to Redis in time, whatever timeouts the client was
// made with.
package timeout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// longest is how long Redis may take to answer, if the client waits longer.
const longest = 5 * time.Second

// ErrOverdue is the error of those whose call had no answer in time. It does not
// match context.DeadlineExceeded: nobody's own deadline has passed.
var ErrOverdue = fmt.Errorf("%w: no answer in time", engine.ErrOutcomeUnknown)

// Of is how long a client waits for an answer: its ReadTimeout, 5 s at most.
func Of(rdb redis.UniversalClient) time.Duration {
	read := longest
	switch c := rdb.(type) {
	case *redis.Client:
		read = c.Options().ReadTimeout
	case *redis.ClusterClient:
		read = c.Options().ReadTimeout
	case *redis.Ring:
		read = c.Options().ReadTimeout
	}
	if read <= 0 {
		return longest
	}
	return min(read, longest)
}

// Call returns what call returns. If ctx ends first, or the time is over, it
// returns an error that matches [engine.ErrOutcomeUnknown], and ctx's if that has
// ended.
//
// The ctx that call gets ends with Call. What call does in spite of that ends
// with the client's own timeouts, and so does its goroutine.
func Call[T any](
	ctx context.Context, within time.Duration, call func(context.Context) (T, error),
) (answer T, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, within, ErrOverdue)
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
