package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
)

// mostWatchers bounds how many look at queues at once.
const mostWatchers = 200

// event is what the page draws.
type event struct {
	picture.Queue
	Waiting int64    `json:"waiting"` // requests for it that wait in this server
	History []minute `json:"history"`
}

// events sends one at once and one each second until the client leaves. All
// viewers of a queue share a read of it.
func (s *Server) events(w http.ResponseWriter, r *request) (any, error) {
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if s.watchers.Add(1) > mostWatchers {
		s.watchers.Add(-1)
		return nil, fmt.Errorf("%w: %d watchers", errTooMany, mostWatchers)
	}
	defer s.watchers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	for {
		text, err := q.event.get(time.Second, func() (string, error) { return s.event(r.Context(), q) })
		if err != nil {
			return nil, nil
		}
		_ = control.SetWriteDeadline(time.Now().Add(s.slow))
		if _, err := io.WriteString(w, text); err != nil || control.Flush() != nil {
			return nil, nil
		}
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return nil, nil
		}
	}
}

// event is one read, as viewers are told.
func (s *Server) event(ctx context.Context, q *queue) (string, error) {
	p, err := s.pictureOf(ctx, q)
	if err != nil {
		text, err := json.Marshal(map[string]string{"error": err.Error()})
		return fmt.Sprintf("event: trouble\ndata: %s\n\n", text), err
	}
	text, err := json.Marshal(event{p, q.waiting.Load(), q.history.last(time.Now())})
	return fmt.Sprintf("data: %s\n\n", text), err
}
