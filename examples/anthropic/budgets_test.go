package anthropic_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/anthropic"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// mostOutput is what a window may hold: 15 % more than the quota, by which the
// guesses of a window are short.
const mostOutput = 23_000

// limits are those of a test whose minute is shorter.
func limits(minute time.Duration) example.Limits {
	return example.Limits{
		Requests: fairlimit.Quota{Permits: 200, Per: minute},
		Input:    fairlimit.Quota{Permits: 80_000, Per: minute},
		Output:   fairlimit.Quota{Permits: 20_000, Per: minute},
	}
}

// askAll lets the callers of one process ask.
func askAll(
	t *testing.T, rdb *redis.Client, minute time.Duration, base http.RoundTripper, url string,
	crowd llmtest.Crowd, process int,
) {
	l := limits(minute)
	queue, err := fairlimit.NewQueue(rdb, "claude", l.Requests,
		fairlimit.WithUnit(llmlimit.InputTokens, l.Input), fairlimit.WithUnit(llmlimit.OutputTokens, l.Output),
		fairlimit.WithUnitGuard(llmlimit.OutputTokens, minute/15)) // the time by which calls differ
	require.NoError(t, err)
	transport := llmlimit.New(queue, llmlimit.Anthropic)
	transport.Base = base
	client := anthropic.NewClient(option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithBaseURL(url), option.WithAPIKey("key"))
	crowd.Run(t, process, func(question string, stream bool) error {
		_, err := say(t.Context(), client, stream, params(question, 4096))
		return err
	})
}

// The clients are those of four processes, on a clock of the test's own.
func TestThreeBudgetsAreUsedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, service := redistest.Mini(t), upstream(limits(time.Minute))
		crowd := llmtest.Crowd{Processes: 4, Callers: 5, Calls: 16, Token: 5 * time.Millisecond}
		base, began := service.Pipe(t), time.Now()
		var all sync.WaitGroup
		for process := range crowd.Processes {
			rdb := server.NewClient(t)
			all.Go(func() { askAll(t, rdb, time.Minute, base, "http://anthropic", crowd, process) })
		}
		all.Wait()
		synctest.Wait()
		crowd.Used(t, service, llmlimit.OutputTokens, time.Minute, time.Since(began), mostOutput)
		assert.Zero(t, llmtest.Overtaken(service.Calls(), 0))
	})
}
