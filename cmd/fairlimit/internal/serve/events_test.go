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

// viewer reads the events of a queue.
func (s *served) viewer(ctx context.Context, name string) (next func() event) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/queues/"+name+"/events", nil)
	require.NoError(s.t, err)
	answer, err := s.client.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(s.t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	return func() (e event) {
		for lines.Scan() {
			if text, found := strings.CutPrefix(lines.Text(), "data: "); found {
				require.NoError(s.t, json.Unmarshal([]byte(text), &e))
				return e
			}
		}
		require.NoError(s.t, lines.Err())
		return e
	}
}

// commandsOfALook are the most that a read of one queue takes.
const commandsOfALook = 3

func TestManyViewersCostOneReadASecond(t *testing.T) {
	s := started(t, "unix")
	s.do("POST", "/v1/queues/tax/turn")
	var asked questions
	s.rdb.AddHook(&asked)
	ctx, leave := context.WithCancel(t.Context())
	began := time.Now()
	for range 20 {
		s.viewer(ctx, "tax")()
		time.Sleep(60 * time.Millisecond) // for which another look at the queue is shared
	}
	next := s.viewer(ctx, "tax")
	for range 3 {
		next()
	}
	require.LessOrEqual(t, asked.total.Load(), commandsOfALook*(1+int64(time.Since(began)/time.Second)))
	leave()
	require.Eventually(t, func() bool { return s.watchers.Load() == 0 }, patience, time.Millisecond)
}

func TestEventsTellTheLine(t *testing.T) {
	s := started(t, "unix")
	s.do("POST", "/v1/queues/tax/turn")
	s.do("POST", "/v1/queues/tax/reserve")
	s.do("POST", "/v1/queues/tax/turn?timeout=1m")
	e := s.viewer(t.Context(), "tax")()
	text, err := json.Marshal(e)
	require.NoError(t, err)
	var object any
	require.NoError(t, json.Unmarshal(text, &object))
	d := openAPI(t)
	require.NoError(t, d.fits(object, d.at(map[string]any(d), "components", "schemas", "Queue")))
	require.Equal(t, int64(1), e.Queued)
	require.InDelta(t, 2*time.Hour.Milliseconds(), e.Next, 60_000)
	require.Len(t, e.History, 1)
	require.Equal(t, []int64{1, 1, 0}, []int64{e.History[0].Turns, e.History[0].Refused, e.History[0].Failed})
}

func TestAFailureOfRedisIsToldToViewers(t *testing.T) {
	s := started(t, "unix")
	require.NoError(t, s.rdb.Set(t.Context(), s.Prefix+"{tax}", "something else", 0).Err())
	text, err := s.event(t.Context(), s.queues.peek("tax"))
	require.NoError(t, err)
	require.Contains(t, text, "event: trouble\ndata: {\"error\":")
}

func TestWhoOnlyLooksLeavesRedisToOthers(t *testing.T) {
	s := started(t, "unix")
	for range mostUnknown { // asked for, and not answered yet
		s.queues.unknown <- struct{}{}
	}
	var asked questions
	s.rdb.AddHook(&asked)
	ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer leave()
	_, err := s.try(ctx, "GET", "/v1/queues/nix")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, asked.total.Load(), "it waits for its turn to ask")

	began, looks := time.Now(), 100
	for range looks {
		require.Equal(t, 200, s.do("GET", "/v1/queues/tax").status)
	}
	require.LessOrEqual(t, asked.total.Load(), commandsOfALook*(1+int64(time.Since(began)/(50*time.Millisecond))))
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/turn").status)
}

func TestTheHistoryIsOneHourLong(t *testing.T) {
	h, at := &history{}, time.Unix(1_000_000*60, 0)
	for i := range 100 {
		h.now(at.Add(time.Duration(i) * time.Minute)).Turns = int64(i)
	}
	last := h.last(at.Add(99 * time.Minute))
	require.Len(t, last, 60)
	require.Equal(t, int64(40), last[0].Turns)
	require.Equal(t, int64(99), last[59].Turns)
	require.Len(t, h.last(at.Add(109*time.Minute)), 50)
	require.Empty(t, h.last(at.Add(5*time.Hour)))
}
