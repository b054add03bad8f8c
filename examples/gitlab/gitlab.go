// Package gitlab shows programs on many machines that share GitLab's limit on
// API requests.
//
// The limiter stands below the retries of the client, as the transport of its
// HTTP client, so that each attempt waits for a turn of its own. The client also
// offers WithCustomLimiter. That place is above the retries: the first attempt
// waits, and the up to five that follow do not.
//
// A 429 pauses the queue for everybody who shares it, for as long as GitLab says
// in Retry-After. Without the pause, all others would run into a 429 of their
// own.
package gitlab

import (
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// NewClient returns a client whose requests wait in one queue with those of all
// clients made with the same Redis. Give each call a ctx with a deadline, by
// gitlab.WithContext: a call whose turn would come later fails at once.
func NewClient(rdb redis.UniversalClient, quota fairlimit.Quota, baseURL, token string) (*gitlab.Client, error) {
	queue, err := fairlimit.NewQueue(rdb, "gitlab", quota,
		fairlimit.WithGuard(50*time.Millisecond)) // for delays on the way to GitLab
	if err != nil {
		return nil, fmt.Errorf("gitlab: %w", err)
	}
	return gitlab.NewClient(token,
		gitlab.WithBaseURL(baseURL),
		gitlab.WithHTTPClient(&http.Client{
			Transport: &httplimit.Transport{Limiter: queue},
		}),
	)
}
