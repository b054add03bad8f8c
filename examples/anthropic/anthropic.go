// Package anthropic shows programs on many machines that share the three limits
// of one of Anthropic's models: requests, input tokens and output tokens per
// minute.
//
// The limiter is the transport of the HTTP client, below its retries, so that
// each attempt takes a turn of its own. A turn takes one request and what such
// calls used before. Once the answer has been read, also as a stream, the turn is
// settled to what it has used.
package anthropic

import (
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// Limits are those of a model, or of a group of models that share them. Each
// group needs a name of its own.
type Limits struct{ Requests, Input, Output fairlimit.Quota }

// NewClient returns a client whose requests wait in the queue of all clients
// made with the same Redis and name. If a turn comes too late for its ctx, the
// client asks twice more, as it does when a connection breaks; nothing is sent.
func NewClient(
	rdb redis.UniversalClient, name string, limits Limits, opts ...option.RequestOption,
) (anthropic.Client, error) {
	queue, err := fairlimit.NewQueue(rdb, name, limits.Requests,
		fairlimit.WithUnit(llmlimit.InputTokens, limits.Input),
		fairlimit.WithUnit(llmlimit.OutputTokens, limits.Output))
	if err != nil {
		return anthropic.Client{}, err
	}
	transport := llmlimit.New(queue, llmlimit.Anthropic)
	return anthropic.NewClient(append(opts, option.WithHTTPClient(&http.Client{Transport: transport}))...), nil
}
