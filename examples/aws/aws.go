// Package aws shows programs on many machines that share the limit of an AWS
// account, such as the five requests a second of Route 53.
//
// The limiter stands in GetAttemptToken of the retryer. The SDK asks it before
// each attempt, the first one included, and before it signs the request. Three
// other places look right and are not:
//
//   - The RateLimiter in the options of a retryer is asked before retries only.
//   - A transport of the HTTP client is asked after the request was signed. AWS
//     refuses a signature that is older than five minutes.
//   - There, too, the SDK takes a refused turn for a broken connection, and asks
//     again.
//
// AWS throttles with error codes, most of them in a 400, and says nothing about
// when to come back. The example pauses the queue for everybody for two seconds.
package aws

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/fairlimit/fairlimit"
)

const pauseWhenThrottled = 2 * time.Second

// Retryer makes the retryer of aws.Config, or that of a service's Options. All
// attempts wait in the queue. A turn that comes too late for the ctx of the call
// is an error at once, and nothing is sent.
func Retryer(queue *fairlimit.Queue) func() aws.Retryer {
	return func() aws.Retryer { return retryer{retry.NewStandard(), queue} }
}

type retryer struct {
	aws.RetryerV2
	queue *fairlimit.Queue
}

// GetAttemptToken waits for the turn of one attempt. The SDK calls what it
// returns with the attempt's error.
func (r retryer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if err := r.queue.Wait(ctx); err != nil {
		return nil, err
	}
	release, err := r.RetryerV2.GetAttemptToken(ctx)
	if err != nil {
		return nil, err
	}
	throttles := retry.IsErrorThrottles(retry.DefaultThrottles)
	return func(attempt error) error {
		var paused error
		if throttles.IsErrorThrottle(attempt).Bool() {
			paused = r.queue.Pause(context.WithoutCancel(ctx), pauseWhenThrottled)
		}
		return errors.Join(release(attempt), paused)
	}, nil
}
