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

// viewer reads the events of a queue: what each is, and its object.
func (s *served) viewer(ctx context.Context, name string) (next func() (kind string, object map[string]any)) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/v1/queues/"+name+"/events", nil)
	require.NoError(s.t, err)
	answer, err := s.client.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(s.t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	return func() (kind string, object map[string]any) {
		for lines.Scan() {
			if text, found := strings.CutPrefix(lines.Text(), "event: "); found {
				kind = text
			} else if text, found := strings.CutPrefix(lines.Text(), "data: "); found {
				require.NoError(s.t, json.Unmarshal([]byte(text), &object))
				return kind, object
			}
		}
		require.NoError(s.t, lines.Err())
		return "end", nil
	}
}

func TestEventsTellTheLine(t *testing.T) {
	s := started(t, "unix")
	s.do("POST", "/v1/queues/tax/turn")
	s.do("POST", "/v1/queues/tax/reserve")
	ctx, leave := context.WithCancel(t.Context())
	next := s.viewer(ctx, "tax")
	for range 2 {
		kind, object := next()
		require.Equal(t, "message", kind)
		fits(t, "/components/schemas/Queue", object)
		require.Equal(t, 1.0, object["queued"])
		require.InDelta(t, 2*time.Hour.Milliseconds(), object["next_ms"], 60_000)
	}
	require.NoError(t, s.rdb.Set(t.Context(), s.Prefix+"{tax}", "something else", 0).Err())
	kind, object := next()
	require.Equal(t, "trouble", kind)
	require.Contains(t, object["error"], "not the head of a queue")
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
