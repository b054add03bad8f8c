// Package asynq shows workers on many machines whose tasks call one upstream.
//
// The limiter stands in a middleware, around the handler of a task, so that each
// try of a task waits for a turn of its own. A worker waits where the turn is
// near. Where it is far, the task goes back to asynq and the worker takes
// another. How far is what WithMaxWait of the queue says.
//
// A task that goes back holds no place in the queue, so a later one may pass it.
// Workers that wait keep the order. So let them wait as long as you can spare
// them.
package asynq

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fairlimit/fairlimit"
)

// InTurn lets a task begin when its turn comes. If it would come later than
// WithMaxWait of the queue allows, or after the deadline of the task, the error
// is a *fairlimit.RefusedError: see Config.
//
// A handler that hears "429, Retry-After" from the upstream calls queue.Pause,
// which holds the tasks of all machines, and returns an error.
func InTurn(queue *fairlimit.Queue) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			if err := queue.Wait(ctx); err != nil {
				return err
			}
			return next.ProcessTask(ctx, task)
		})
	}
}

// Config lets a refused task come back when its turn would have come. It does
// not count as a failure, so it uses up none of the task's retries. (A task with
// MaxRetry 0 is archived all the same.)
func Config() asynq.Config {
	return asynq.Config{
		RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
			if refused := new(fairlimit.RefusedError); errors.As(err, &refused) {
				return refused.Wait
			}
			return asynq.DefaultRetryDelayFunc(n, err, task)
		},
		IsFailure: func(err error) bool {
			refused := new(fairlimit.RefusedError)
			return err != nil && !errors.As(err, &refused)
		},
	}
}
