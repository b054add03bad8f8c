// Package resty shows a resty client whose requests wait for their turn.
//
// The limiter is the transport, below the retries of resty, so that each attempt
// waits for a turn of its own. A middleware would stand above them. A 429 or a
// 503 with Retry-After pauses the queue for everybody who shares it, and not
// only the request that was refused.
package resty

import (
	"net/http"
	"time"

	"resty.dev/v3"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// NewClient returns a client whose requests wait in the queue. Close it when it
// is no longer needed.
//
// Do not use resty's SetTimeout: it counts the wait as well, so requests would be
// refused in a long queue. The transport's own timeouts begin with the turn, and
// the ctx of a request says how long it may wait.
func NewClient(queue *fairlimit.Queue, baseURL string) *resty.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = 10 * time.Second
	return resty.New().
		SetBaseURL(baseURL).
		SetTransport(&httplimit.Transport{Limiter: queue, Base: base}).
		SetRetryCount(3).
		AddRetryConditions(resty.RetryConditionStatusTooManyRequests, resty.RetryConditionStatus5XX)
}
