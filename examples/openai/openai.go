// Package openai shows programs on many machines that share two limits of one
// OpenAI project: requests per minute and tokens per minute.
//
// Both limiters are transports of the HTTP client, below its retries, so that
// each attempt takes its turns anew. A 429 pauses both queues for everybody, for
// as long as Retry-After-Ms says.
//
// A request waits for its tokens first, and then for its place among the
// requests. All wait in the same order, so both queues serve them in the order
// in which they came. To try both at once, and to give one back where the other
// is not free, would have no order: a large request would hardly ever find both
// free. The price is that a request which is refused its second turn has taken
// tokens that pass unused.
//
// Put the tighter limit outside, since its line is the longer one. What a
// request then waits for the other delays it on its way, so give the outer queue
// a guard of about that time.
package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// NewClient returns a client whose requests wait in the two queues of all
// clients made with the same Redis. If a turn comes too late for its ctx, the
// client asks twice more, as it does when a connection breaks; nothing is sent.
func NewClient(
	rdb redis.UniversalClient, requests, tokens fairlimit.Quota, opts ...option.RequestOption,
) (openai.Client, error) {
	requestQueue, err := fairlimit.NewQueue(rdb, "openai requests", requests)
	tokenQueue, tokenErr := fairlimit.NewQueue(rdb, "openai tokens", tokens, fairlimit.WithGuard(time.Second))
	if err := errors.Join(err, tokenErr); err != nil {
		return openai.Client{}, err
	}
	transport := &httplimit.Transport{
		Limiter: tokenQueue, Permits: tokensOf,
		Base: &httplimit.Transport{Limiter: requestQueue},
	}
	return openai.NewClient(append(opts, option.WithHTTPClient(&http.Client{Transport: transport}))...), nil
}

// tokensOf is what OpenAI counts before it knows the answer: the tokens that may
// be written, or a quarter of the characters that were sent if that is more. A
// request for more than the whole quota fails with ErrExceedsQuota.
func tokensOf(req *http.Request) int {
	permits := max(1, int(req.ContentLength/4))
	if req.GetBody == nil {
		return permits
	}
	body, err := req.GetBody()
	if err != nil {
		return permits
	}
	defer func() { _ = body.Close() }()
	var limits struct {
		Chat      int `json:"max_completion_tokens"`
		Responses int `json:"max_output_tokens"`
	}
	_ = json.NewDecoder(body).Decode(&limits) // what is no JSON has no such limit
	return max(permits, limits.Chat, limits.Responses)
}
