package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
)

// mostWatchers bounds how many look at queues at once.
const mostWatchers = 200

// event is what the page draws.
type event struct {
	picture.Queue
	Waiting int64 `json:"waiting"` // requests for it that wait in this server
}

// events sends one at once and one each second until the client leaves.
func (s *Server) events(w http.ResponseWriter, r *request) (any, error) {
	q, err := s.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	defer s.watchers.Add(-1)
	if s.watchers.Add(1) > mostWatchers {
		return nil, fmt.Errorf("%w: %d watchers", errTooMany, mostWatchers)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for {
		kind, object := "message", any(nil)
		if p, err := q.look(r.Context()); err != nil {
			kind, object = "trouble", map[string]string{"error": err.Error()}
		} else {
			object = event{p, q.waiting.Load()}
		}
		text, _ := json.Marshal(object)
		_ = control.SetWriteDeadline(time.Now().Add(s.slow))
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text); err != nil || control.Flush() != nil {
			return nil, nil
		}
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return nil, nil
		}
	}
}
