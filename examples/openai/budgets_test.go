package openai_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

const mostTokens = 20_000

func upstream(minute time.Duration) *llmtest.Upstream { return llmtest.OpenAI(quotas(minute)) }

// quotas are those of a test whose minute is shorter.
func quotas(minute time.Duration) (requests, tokens fairlimit.Quota) {
	return fairlimit.Quota{Permits: 200, Per: minute}, fairlimit.Quota{Permits: mostTokens, Per: minute}
}

// askAll lets the callers of one process ask.
func askAll(
	t *testing.T, rdb *redis.Client, minute time.Duration, base http.RoundTripper, url string,
	crowd llmtest.Crowd, process int,
) {
	requests, tokens := quotas(minute)
	queue, err := fairlimit.NewQueue(rdb, "gpt", requests, fairlimit.WithUnit(llmlimit.Tokens, tokens))
	require.NoError(t, err)
	transport := llmlimit.New(queue, llmlimit.OpenAI)
	transport.Base = base
	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithBaseURL(url), option.WithAPIKey("key"))
	crowd.Run(t, process, func(text string, stream bool) error {
		question := params(text, 400)
		if !stream {
			_, err := client.Chat.Completions.New(t.Context(), question)
			return err
		}
		answer := client.Chat.Completions.NewStreaming(t.Context(), question)
		for answer.Next() {
		}
		return answer.Err()
	})
}

// The clients are those of four processes, on a clock of the test's own.
func TestBothBudgetsAreUsedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, service := redistest.Mini(t), upstream(time.Minute)
		crowd := llmtest.Crowd{Processes: 4, Callers: 5, Calls: 15, Token: 5 * time.Millisecond}
		base, began := service.Pipe(t), time.Now()
		var all sync.WaitGroup
		for process := range crowd.Processes {
			rdb := server.NewClient(t)
			all.Go(func() { askAll(t, rdb, time.Minute, base, "http://openai", crowd, process) })
		}
		all.Wait()
		synctest.Wait()
		crowd.Used(t, service, llmlimit.Tokens, time.Minute, time.Since(began), mostTokens)
		assert.Zero(t, llmtest.Overtaken(service.Calls(), 0))
	})
}
