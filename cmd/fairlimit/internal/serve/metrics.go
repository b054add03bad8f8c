package serve

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/promtext"
)

// statusGone stands for a client that closed its connection while it waited.
const statusGone = 499

// count counts an answer.
func (s *Server) count(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered[status]++
}

// counted is a response whose status is counted.
type counted struct {
	http.ResponseWriter
	server *Server
}

func (c *counted) WriteHeader(status int) {
	c.server.count(status)
	if status == statusGone {
		panic(http.ErrAbortHandler) // which closes the connection and logs nothing
	}
	_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Now().Add(c.server.slow))
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (s *Server) metrics(w http.ResponseWriter, r *request) (any, error) {
	queues, err := s.scraped.get(time.Second, func() (string, error) {
		var all []*promtext.Metrics
		for _, q := range s.queues.all() {
			all = append(all, q.metrics)
		}
		var text strings.Builder
		err := promtext.Write(context.WithoutCancel(r.Context()), &text, all)
		return text.String(), err
	})
	if err != nil {
		return nil, err
	}
	text := bytes.NewBufferString(queues)
	text.WriteString("# HELP fairlimit_serve_answers_total Answers by status; 499: the client closed its connection.\n" +
		"# TYPE fairlimit_serve_answers_total counter\n")
	s.mu.Lock()
	for _, status := range slices.Sorted(maps.Keys(s.answered)) {
		fmt.Fprintf(text, "fairlimit_serve_answers_total{status=\"%d\"} %d\n", status, s.answered[status])
	}
	s.mu.Unlock()
	fmt.Fprintf(text, "# HELP fairlimit_serve_waiting Requests for turns that have no answer yet.\n"+
		"# TYPE fairlimit_serve_waiting gauge\nfairlimit_serve_waiting %d\n", s.waiting.Load())
	return nil, send(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", text.Bytes())
}

// recent is what was read a moment ago, however many ask for it.
type recent[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

func (r *recent[T]) get(age time.Duration, read func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) > age {
		r.value, r.err = read()
		r.at = time.Now()
	}
	return r.value, r.err
}

func (s *Server) healthz(_ http.ResponseWriter, r *request) (any, error) {
	_, err := s.health.get(time.Second, func() (fair.State, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Second)
		defer cancel()
		return s.inspect(ctx, "fairlimit-serve")
	})
	if err != nil {
		s.tell(err)
		return nil, refusal{http.StatusServiceUnavailable, "Redis does not answer"}
	}
	return map[string]any{"ok": true}, nil
}
