package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Two programs share a queue. What the upstream says to one holds back both,
// callers that sleep included.
func TestARefusalHoldsBackEveryProgram(t *testing.T) {
	const within, pause, at = 100 * time.Millisecond, time.Second, 12
	var mu sync.Mutex
	var calls []time.Time
	var refused time.Time
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, time.Now())
		if len(calls) == at {
			refused = time.Now()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer upstream.Close()

	rdb, name := redistest.Standalone(t), redistest.Name(t)
	var all sync.WaitGroup
	for range 2 {
		q, err := fairlimit.NewQueue(rdb, name, fairlimit.Every(20*time.Millisecond), fairlimit.WithPauseWithin(within))
		require.NoError(t, err)
		client := &http.Client{Transport: &httplimit.Transport{Limiter: q}}
		for range 20 {
			all.Go(func() {
				resp, err := client.Get(upstream.URL)
				if assert.NoError(t, err) {
					assert.NoError(t, resp.Body.Close())
				}
			})
		}
	}
	all.Wait()
	require.Len(t, calls, 40)
	before, after := 0, 0
	for _, call := range calls {
		switch since := call.Sub(refused); {
		case since <= within+100*time.Millisecond: // and what the way and a busy machine take
			before++
		default:
			after++
			assert.GreaterOrEqual(t, since, pause)
		}
	}
	assert.GreaterOrEqual(t, before, at)
	assert.NotZero(t, after)
}
