package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
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

// watch reads a queue once a second while somebody looks at it, however many do,
// and however often they come and go.
type watch struct {
	mu      sync.Mutex
	viewers map[chan string]bool
	last    string // what was read last,
	at      time.Time
	reading bool
}

// events sends one at once and one each second until the client leaves.
func (s *Server) events(w http.ResponseWriter, r *request) error {
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	if s.watchers.Add(1) > mostWatchers {
		s.watchers.Add(-1)
		return fmt.Errorf("%w: %d watchers", errTooMany, mostWatchers)
	}
	defer s.watchers.Add(-1)
	news := s.enter(q)
	defer q.exit(news)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	for {
		if control.Flush() != nil {
			return nil
		}
		select {
		case text := <-news:
			_ = control.SetWriteDeadline(time.Now().Add(s.slow))
			if _, err := fmt.Fprint(w, text); err != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
}

// enter adds a viewer. The first one starts the reads.
func (s *Server) enter(q *queue) chan string {
	v := &q.watch
	v.mu.Lock()
	defer v.mu.Unlock()
	news := make(chan string, 1)
	if v.viewers == nil {
		v.viewers = map[chan string]bool{}
	}
	v.viewers[news] = true
	if time.Since(v.at) < time.Second {
		news <- v.last
	}
	if !v.reading {
		v.reading = true
		go s.read(q)
	}
	return news
}

func (q *queue) exit(news chan string) {
	q.watch.mu.Lock()
	defer q.watch.mu.Unlock()
	delete(q.watch.viewers, news)
}

// read tells the viewers what there is to see until the last of them has left.
func (s *Server) read(q *queue) {
	v := &q.watch
	for {
		v.mu.Lock()
		next := v.at.Add(time.Second)
		v.mu.Unlock()
		time.Sleep(time.Until(next))
		text := s.event(context.Background(), q)
		v.mu.Lock()
		v.last, v.at = text, time.Now()
		for news := range v.viewers {
			select {
			case <-news: // not taken yet, and old now
			default:
			}
			news <- text
		}
		v.reading = len(v.viewers) > 0
		more := v.reading
		v.mu.Unlock()
		if !more {
			return
		}
	}
}

// event is one read, as viewers are told.
func (s *Server) event(ctx context.Context, q *queue) string {
	p, err := s.pictureOf(ctx, q)
	if err != nil {
		text, _ := json.Marshal(map[string]string{"error": err.Error()})
		return fmt.Sprintf("event: trouble\ndata: %s\n\n", text)
	}
	text, err := json.Marshal(event{p, q.waiting.Load(), q.history.last(time.Now())})
	if err != nil {
		return ""
	}
	return fmt.Sprintf("data: %s\n\n", text)
}
