package openai_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	example "github.com/fairlimit/fairlimit/examples/openai"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var tokens = fairlimit.PerHour(1000)

// client asks a question whose answer has at most 100 tokens.
func client(t testing.TB, p *fake.Place) func(context.Context) error { return ask(t, p, "?", 100) }

func ask(t testing.TB, p *fake.Place, question string, most int64) func(context.Context) error {
	client, err := example.NewClient(p.Redis.Client(t), "gpt", p.Quota, tokens,
		option.WithBaseURL(p.URL), option.WithAPIKey("key"))
	require.NoError(t, err)
	return func(ctx context.Context) error {
		_, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model:               openai.ChatModelGPT4o,
			Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
			MaxCompletionTokens: openai.Int(most),
		})
		return err
	}
}

func TestEachAttemptTakesARequestAndItsTokens(t *testing.T) {
	t.Parallel()
	requests := fairlimit.PerHour(10)
	upstream := llmtest.OpenAI(requests, tokens)
	p := fake.NewPlace(t, requests, func(call int, w http.ResponseWriter, r *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		upstream.ServeHTTP(w, r)
	})
	left := func() fairlimit.Status {
		return fake.Status(t, p.Redis.Queue(t, "gpt", requests, fairlimit.WithUnit(llmlimit.Tokens, tokens)))
	}
	require.NoError(t, client(t, p)(t.Context()))
	assert.Len(t, p.Calls(), 2)
	assert.Equal(t, 10-2, left().Available)
	assert.Equal(t, 1000-2*100, left().Units[llmlimit.Tokens].Available)

	require.NoError(t, ask(t, p, strings.Repeat("why ", 500), 10)(t.Context()), "a long question takes more")
	assert.LessOrEqual(t, left().Units[llmlimit.Tokens].Available, 800-500)
	require.ErrorIs(t, ask(t, p, "?", 1001)(t.Context()), fairlimit.ErrExceedsQuota)
	assert.Len(t, p.Calls(), 3, "more than the quota is not sent")
}

func TestA429PausesTheQueue(t *testing.T) {
	t.Parallel()
	fake.A429PausesEverybody(t, client, "Retry-After-Ms", "600000")
}
