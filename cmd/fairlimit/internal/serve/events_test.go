package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEventsTellTheLine(t *testing.T) {
	s := started(t, "unix")
	s.do("POST", "/v1/queues/tax/turn")
	s.do("POST", "/v1/queues/tax/reserve")
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/v1/queues/tax/events", nil)
	require.NoError(t, err)
	answer, err := s.client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	next := func(kind string) (object map[string]any) {
		require.True(t, lines.Scan())
		require.Equal(t, "event: "+kind, lines.Text())
		require.True(t, lines.Scan())
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &object))
		require.True(t, lines.Scan()) // an empty line
		return object
	}
	for range 2 {
		object := next("message")
		fits(t, "/components/schemas/Queue", object)
		require.Equal(t, 1.0, object["queued"])
		require.InDelta(t, 2*time.Hour.Milliseconds(), object["next_ms"], 60_000)
	}
	require.NoError(t, s.rdb.Set(t.Context(), s.Prefix+"{tax}", "something else", 0).Err())
	require.Contains(t, next("trouble")["error"], "not the head of a queue")
	leave()
	s.until(func() bool { return s.watchers.Load() == 0 })
}

func TestManyWhoLookShareReads(t *testing.T) {
	s := started(t, "unix")
	s.do("POST", "/v1/queues/tax/turn")
	asked := s.questions()
	began := time.Now()
	for range 100 {
		require.Equal(t, 200, s.do("GET", "/v1/queues/tax").status)
	}
	const commandsOfALook = 4
	require.LessOrEqual(t, asked.Load(), commandsOfALook*(1+int64(time.Since(began)/(50*time.Millisecond))))

	s.watchers.Store(mostWatchers)
	require.Equal(t, 429, s.do("GET", "/v1/queues/tax/events").status)
}
