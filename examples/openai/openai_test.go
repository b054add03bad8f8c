package openai_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	example "github.com/fairlimit/fairlimit/examples/openai"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

var (
	requests = fairlimit.PerHour(10)
	tokens   = fairlimit.PerHour(1000)
)

func newClient(t *testing.T, rdb redis.UniversalClient, requests, tokens fairlimit.Quota, url string) openai.Client {
	t.Helper()
	client, err := example.NewClient(rdb, "gpt", requests, tokens, option.WithBaseURL(url), option.WithAPIKey("key"))
	require.NoError(t, err)
	return client
}

func params(question string, most int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:               openai.ChatModelGPT4o,
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		MaxCompletionTokens: openai.Int(most),
	}
}

func ask(ctx context.Context, client openai.Client, question string, most int64) error {
	_, err := client.Chat.Completions.New(ctx, params(question, most))
	return err
}

// left are the requests and the tokens that are free.
func left(t *testing.T, server *fairlimittest.Server) (int, int) {
	t.Helper()
	status := fake.Status(t, server.Queue(t, "gpt", requests, fairlimit.WithUnit(llmlimit.Tokens, tokens)))
	return status.Available, status.Units[llmlimit.Tokens].Available
}

func TestEachAttemptTakesARequestAndItsTokens(t *testing.T) {
	t.Parallel()
	upstream := llmtest.OpenAI(requests, tokens)
	service := fake.Start(t, func(call int, w http.ResponseWriter, r *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		upstream.ServeHTTP(w, r)
	})
	server := fairlimittest.Start(t)
	require.NoError(t, ask(t.Context(), newClient(t, server.Client(t), requests, tokens, service.URL), "?", 100))
	assert.Len(t, service.Calls(), 2)
	freeRequests, freeTokens := left(t, server)
	assert.Equal(t, 10-2, freeRequests)
	assert.Equal(t, 1000-2*100, freeTokens)
}

func TestA429PausesTheQueue(t *testing.T) {
	t.Parallel()
	service := fake.StartBusy(t, "Retry-After-Ms", "600000")
	server := fairlimittest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // the first one's retries are refused, as is all that the second asks
		client := newClient(t, server.Client(t), requests, tokens, service.URL)
		require.ErrorIs(t, ask(ctx, client, "?", 100), fairlimit.ErrPaused)
	}
	assert.Len(t, service.Calls(), 1)
}

func TestALongQuestionTakesMore(t *testing.T) {
	t.Parallel()
	server := fairlimittest.Start(t)
	client := newClient(t, server.Client(t), requests, tokens, llmtest.OpenAI(requests, tokens).Serve(t))
	require.NoError(t, ask(t.Context(), client, strings.Repeat("why ", 500), 10))
	_, freeTokens := left(t, server)
	assert.LessOrEqual(t, freeTokens, 1000-500)
}

func TestARequestForMoreThanTheQuotaIsNotSent(t *testing.T) {
	t.Parallel()
	upstream := llmtest.OpenAI(requests, tokens)
	client := newClient(t, fairlimittest.Start(t).Client(t), requests, tokens, upstream.Serve(t))
	require.ErrorIs(t, ask(t.Context(), client, "?", 1001), fairlimit.ErrExceedsQuota)
	assert.Empty(t, upstream.Calls())
}
