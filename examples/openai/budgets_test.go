package openai_test

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// Clients of four processes, on a clock of the test's own. Nobody is turned away,
// all go in the order in which they asked, and little is unused. Two read streams.
func TestBothBudgetsAreUsedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 300
		requests, tokens := fairlimit.PerMinute(200), fairlimit.PerMinute(20_000)
		server, service := redistest.Mini(t), llmtest.OpenAI(requests, tokens)
		base, began := service.Pipe(t), time.Now()
		asked := make([]time.Time, calls)
		var next atomic.Int64
		var all sync.WaitGroup
		for process := range 4 {
			queue, err := fairlimit.NewQueue(server.NewClient(t), "gpt", requests,
				fairlimit.WithUnit(llmlimit.Tokens, tokens))
			require.NoError(t, err)
			transport := llmlimit.New(queue, llmlimit.OpenAI)
			transport.Base = base
			client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: transport}),
				option.WithBaseURL("http://openai"), option.WithAPIKey("key"))
			for caller := range 5 {
				random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
				all.Go(func() {
					time.Sleep(time.Duration(process+4*caller) * time.Millisecond)
					for n := int(next.Add(1)) - 1; n < calls; n = int(next.Add(1)) - 1 {
						tokens := int(200 * math.Exp(0.6*random.NormFloat64()))
						asked[n] = time.Now()
						question := params(llmtest.Ask(n, tokens, time.Duration(tokens)*5*time.Millisecond), 400)
						if process%2 == 0 {
							_, err := client.Chat.Completions.New(t.Context(), question)
							assert.NoError(t, err)
							continue
						}
						stream := client.Chat.Completions.NewStreaming(t.Context(), question)
						for stream.Next() {
						}
						assert.NoError(t, stream.Err())
					}
				})
			}
		}
		all.Wait()
		synctest.Wait()

		let := service.Calls()
		assert.Len(t, let, calls)
		assert.Zero(t, service.Refused())
		slices.SortStableFunc(let, func(a, b llmtest.Call) int { return asked[a.Number].Compare(asked[b.Number]) })
		assert.True(t, slices.IsSortedFunc(let, func(a, b llmtest.Call) int { return a.At.Compare(b.At) }), "in order")
		used, worst := service.Used(llmlimit.Tokens)
		part := float64(used) / (20_000 * (1 + time.Since(began).Minutes())) // the first minute begins empty
		t.Logf("%.0f %% used, the fullest minute had %d tokens", 100*part, worst)
		assert.Greater(t, part, 0.8)
		assert.LessOrEqual(t, worst, 20_000)
	})
}
