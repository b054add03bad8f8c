package openai_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	example "github.com/fairlimit/fairlimit/examples/openai"
	"github.com/fairlimit/fairlimit/fairlimittest"
)

var (
	requests = fairlimit.PerHour(10)
	tokens   = fairlimit.PerHour(1000)
)

func newClient(t *testing.T, server *fairlimittest.Server, service *fake.Service) openai.Client {
	t.Helper()
	client, err := example.NewClient(server.Client(t), requests, tokens,
		option.WithBaseURL(service.URL), option.WithAPIKey("key"))
	require.NoError(t, err)
	return client
}

func ask(ctx context.Context, client openai.Client, question string, most int64) error {
	_, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:               openai.ChatModelGPT4o,
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		MaxCompletionTokens: openai.Int(most),
	})
	return err
}

// left are the requests and the tokens that are free.
func left(t *testing.T, server *fairlimittest.Server) (int, int) {
	t.Helper()
	return fake.Status(t, server.Queue(t, "openai requests", requests)).Available,
		fake.Status(t, server.Queue(t, "openai tokens", tokens)).Available
}

func answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, `{"choices": [{"message": {"content": "42"}}]}`)
}

func TestEachAttemptTakesARequestAndItsTokens(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(call int, w http.ResponseWriter, _ *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		answer(w)
	})
	server := fairlimittest.Start(t)
	require.NoError(t, ask(t.Context(), newClient(t, server, service), "?", 100))
	assert.Len(t, service.Calls(), 2)
	freeRequests, freeTokens := left(t, server)
	assert.Equal(t, 10-2, freeRequests)
	assert.Equal(t, 1000-2*100, freeTokens)
}

func TestA429PausesBothQueues(t *testing.T) {
	t.Parallel()
	service := fake.StartBusy(t, "Retry-After-Ms", "600000")
	server := fairlimittest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // the first one's retries are refused, as is all that the second asks
		require.ErrorIs(t, ask(ctx, newClient(t, server, service), "?", 100), fairlimit.ErrPaused)
	}
	assert.Len(t, service.Calls(), 1)
	assert.Greater(t, fake.Status(t, server.Queue(t, "openai requests", requests)).Paused, 5*time.Minute)
	assert.Greater(t, fake.Status(t, server.Queue(t, "openai tokens", tokens)).Paused, 5*time.Minute)
}

func TestALongQuestionTakesMore(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answer(w) })
	server := fairlimittest.Start(t)
	require.NoError(t, ask(t.Context(), newClient(t, server, service), strings.Repeat("why ", 500), 10))
	_, freeTokens := left(t, server)
	assert.LessOrEqual(t, freeTokens, 1000-500)
}

func TestARequestForMoreThanTheQuotaIsNotSent(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answer(w) })
	server := fairlimittest.Start(t)
	require.ErrorIs(t, ask(t.Context(), newClient(t, server, service), "?", 1001), fairlimit.ErrExceedsQuota)
	assert.Empty(t, service.Calls())
}
