package anthropic_test

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

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/anthropic"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// Clients of four processes, on a clock of the test's own. Nobody is turned away,
// all go in the order in which they asked, and little is unused. Two read streams.
func TestThreeBudgetsAreUsedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 320
		limits := example.Limits{
			Requests: fairlimit.PerMinute(200), Input: fairlimit.PerMinute(80_000), Output: fairlimit.PerMinute(20_000),
		}
		server, service := redistest.Mini(t), upstream(limits)
		base, began := service.Pipe(t), time.Now()
		asked := make([]time.Time, calls)
		var next atomic.Int64
		var all sync.WaitGroup
		for process := range 4 {
			queue, err := fairlimit.NewQueue(server.NewClient(t), "claude", limits.Requests,
				fairlimit.WithUnit(llmlimit.InputTokens, limits.Input),
				fairlimit.WithUnit(llmlimit.OutputTokens, limits.Output),
				fairlimit.WithUnitGuard(llmlimit.OutputTokens, 4*time.Second)) // calls differ by so much
			require.NoError(t, err)
			transport := llmlimit.New(queue, llmlimit.Anthropic)
			transport.Base = base
			client := anthropic.NewClient(option.WithHTTPClient(&http.Client{Transport: transport}),
				option.WithBaseURL("http://anthropic"), option.WithAPIKey("key"))
			for caller := range 5 {
				random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
				all.Go(func() {
					time.Sleep(time.Duration(process+4*caller) * time.Millisecond)
					for n := int(next.Add(1)) - 1; n < calls; n = int(next.Add(1)) - 1 {
						tokens := int(200 * math.Exp(0.6*random.NormFloat64()))
						asked[n] = time.Now()
						_, err := say(t.Context(), client, process%2 == 0,
							params(llmtest.Ask(n, tokens, time.Duration(tokens)*5*time.Millisecond), 4096))
						assert.NoError(t, err)
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
		used, worst := service.Used(llmlimit.OutputTokens)
		part := float64(used) / (20_000 * (1 + time.Since(began).Minutes())) // the first minute begins empty
		t.Logf("%.0f %% used, the fullest minute had %d tokens", 100*part, worst)
		assert.Greater(t, part, 0.8)
		assert.LessOrEqual(t, worst, 23_000, "15 %: what a minute's guesses are short of")
	})
}
