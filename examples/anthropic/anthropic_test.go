package anthropic_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/anthropic"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var hourly = example.Limits{
	Requests: fairlimit.PerHour(10), Input: fairlimit.PerHour(10_000), Output: fairlimit.PerHour(1000),
}

func upstream(l example.Limits) *llmtest.Upstream {
	return llmtest.Anthropic(l.Requests, l.Input, l.Output)
}

func newClient(t *testing.T, rdb redis.UniversalClient, limits example.Limits, url string) anthropic.Client {
	t.Helper()
	client, err := example.NewClient(rdb, "claude", limits, option.WithBaseURL(url), option.WithAPIKey("key"))
	require.NoError(t, err)
	return client
}

func params(question string, most int64) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "claude-sonnet-4-5", MaxTokens: most,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
	}
}

// say returns the whole answer, which comes as a stream or at once.
func say(
	ctx context.Context, client anthropic.Client, stream bool, question anthropic.MessageNewParams,
) (string, error) {
	if !stream {
		message, err := client.Messages.New(ctx, question)
		if err != nil {
			return "", err
		}
		return message.Content[0].Text, nil
	}
	events := client.Messages.NewStreaming(ctx, question)
	defer func() { _ = events.Close() }()
	var message anthropic.Message
	for events.Next() {
		if err := message.Accumulate(events.Current()); err != nil {
			return "", err
		}
	}
	if events.Err() != nil || len(message.Content) == 0 {
		return "", errors.Join(events.Err(), errors.New("no answer"))
	}
	return message.Content[0].Text, nil
}

// left is what is free of each unit.
func left(t *testing.T, server *fairlimittest.Server) (requests, input, output int) {
	t.Helper()
	status, err := server.Queue(t, "claude", hourly.Requests, fairlimit.WithUnit(llmlimit.InputTokens, hourly.Input),
		fairlimit.WithUnit(llmlimit.OutputTokens, hourly.Output)).Status(t.Context())
	require.NoError(t, err)
	return status.Available, status.Units[llmlimit.InputTokens].Available, status.Units[llmlimit.OutputTokens].Available
}

func TestACallIsSettledToWhatItUsed(t *testing.T) {
	for name, stream := range map[string]bool{"at once": false, "as a stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, service := fairlimittest.Start(t), upstream(hourly)
			client := newClient(t, server.Client(t), hourly, service.Serve(t))
			_, err := say(t.Context(), client, stream, params(llmtest.Ask(0, 40, time.Millisecond), 500))
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				used, _ := service.Used(llmlimit.InputTokens)
				requests, input, output := left(t, server)
				return requests == 9 && input == 10_000-used && output == 1000-40
			}, 10*time.Second, time.Millisecond)
		})
	}
}

func TestAnOverloadedServicePausesTheQueue(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(529)
	}))
	defer service.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := say(ctx, newClient(t, fairlimittest.Start(t).Client(t), hourly, service.URL), false, params("?", 100))
	require.ErrorIs(t, err, fairlimit.ErrPaused)
}
