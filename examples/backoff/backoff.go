// Package backoff shows a call that cenkalti/backoff tries again, where every try
// waits for a turn of its own.
//
// The limiter is the transport, inside the operation that is repeated. Outside,
// only the first try would wait. A 429 pauses the queue, so that the tries of
// everybody wait, on all machines: a backoff alone holds back nobody but itself.
package backoff

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// Errors of the upstream that make another try worth while.
var (
	ErrTooMany     = errors.New("too many requests")
	ErrUnavailable = errors.New("unavailable")
)

// NewClient returns a client for [Get].
func NewClient(queue *fairlimit.Queue) *http.Client {
	return &http.Client{Transport: &httplimit.Transport{Limiter: queue}}
}

// Get gets the URL, up to five times, as long as ctx lets it. The caller closes
// the body.
func Get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	return backoff.Retry(ctx, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, backoff.Permanent(err)
		}
		resp, err := client.Do(req)
		switch {
		case err != nil:
			return nil, again(ctx, err)
		case resp.StatusCode == http.StatusTooManyRequests:
			_ = resp.Body.Close()
			return nil, ErrTooMany
		case resp.StatusCode >= http.StatusInternalServerError:
			_ = resp.Body.Close()
			return nil, ErrUnavailable
		}
		return resp, nil
	}, backoff.WithMaxTries(5), backoff.WithMaxElapsedTime(0))
}

// again says when to try again after a refusal. If the turn comes after the
// deadline of ctx, then never: the next answer would be no better. If it is
// further ahead than WithMaxWait allows, then when it would have come. All other
// errors, such as a Redis that is away, are left to the backoff.
func again(ctx context.Context, err error) error {
	var refused *fairlimit.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= refused.Wait {
		return backoff.Permanent(err)
	}
	return errors.Join(err, &backoff.RetryAfterError{Duration: refused.Wait})
}
