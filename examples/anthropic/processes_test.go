//go:build !race

package anthropic_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// Four processes share a server of Redis. Their minute has four seconds, in which
// the race detector would slow them down.
func TestThreeBudgetsAreUsedByFourProcesses(t *testing.T) {
	const minute, late = 4 * time.Second, 500 * time.Millisecond // a busy machine may hold a call up for so long
	crowd := llmtest.Crowd{Processes: 4, Callers: 5, Calls: 24, Token: 5 * time.Millisecond / 15}
	if process, ok := llmtest.Process(); ok {
		rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("TEST_REDIS")})
		defer redistest.Close(rdb)
		base := &http.Transport{}
		defer base.CloseIdleConnections()
		askAll(t, rdb, minute, base, os.Getenv("TEST_UPSTREAM"), crowd, process)
		return
	}
	service := upstream(limits(minute - late))
	began := time.Now()
	crowd.Start(t, "TEST_UPSTREAM="+service.Serve(t), "TEST_REDIS="+redistest.StartServer(t).Addr())
	crowd.Used(t, service, llmlimit.OutputTokens, minute, time.Since(began), mostOutput)
	// A busy machine makes a few callers miss their turns.
	assert.LessOrEqual(t, llmtest.Overtaken(service.Calls(), minute/4), crowd.All()/10)
}
