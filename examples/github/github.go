// Package github shows programs on many machines that share the limits of one
// GitHub account.
//
// GitHub refuses with 403 as well as with 429. At a secondary limit it says how
// long to stay away in Retry-After. At the primary one X-RateLimit-Remaining is
// 0, and X-RateLimit-Reset says when the hour is over. Either pauses the queue
// for everybody who shares it: who goes on in spite of a secondary limit risks
// the account.
//
// The limiter is the transport of the HTTP client. go-github never sends a
// request again by itself. What you put around it to do so stands above the
// limiter, so that each attempt waits for a turn of its own.
package github

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-github/v74/github"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// NewClient returns a client whose requests wait in one queue with those of all
// clients made with the same Redis. Name the queue after the account, for that
// is what GitHub counts.
func NewClient(rdb redis.UniversalClient, account string, quota fairlimit.Quota, token string) (*github.Client, error) {
	queue, err := fairlimit.NewQueue(rdb, "github "+account, quota)
	if err != nil {
		return nil, fmt.Errorf("github: %w", err)
	}
	client := github.NewClient(&http.Client{Transport: &httplimit.Transport{
		Limiter:  queue,
		MaxPause: time.Hour, // the primary limit may last that long
	}}).WithAuthToken(token)
	// The client remembers a limit and then refuses to send. It is to wait in the
	// queue instead. (WithAuthToken makes a copy that does not copy this.)
	client.DisableRateLimitCheck = true
	return client, nil
}
