// Package openai shows programs on many machines that share two limits of one
// OpenAI model: requests per minute and tokens per minute.
//
// The limiter is the transport of the HTTP client, below its retries, so that
// each attempt takes a turn of its own. A turn takes one request and the tokens
// that OpenAI counts for it: so a large request waits in the same line as the
// small ones, and takes both at once. A 429 pauses the queue for everybody, for
// as long as Retry-After-Ms says.
//
// For Anthropic's SDK it is the same with llmlimit.Anthropic, and with the units
// llmlimit.InputTokens and llmlimit.OutputTokens.
package openai

import (
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// NewClient returns a client whose requests wait in the queue of all clients
// made with the same Redis and name. Models that share limits share a name. If a
// turn comes too late for its ctx, the client asks twice more, as it does when a
// connection breaks; nothing is sent.
func NewClient(
	rdb redis.UniversalClient, name string, requests, tokens fairlimit.Quota, opts ...option.RequestOption,
) (openai.Client, error) {
	queue, err := fairlimit.NewQueue(rdb, name, requests, fairlimit.WithUnit(llmlimit.Tokens, tokens))
	if err != nil {
		return openai.Client{}, err
	}
	client := &http.Client{Transport: llmlimit.New(queue, llmlimit.OpenAI)}
	return openai.NewClient(append(opts, option.WithHTTPClient(client))...), nil
}
