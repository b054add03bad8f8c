package serve

import (
	"context"
	"net/http"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

// done is the answer to what has been done.
var done = map[string]any{"done": true}

func (s *Server) pause(w http.ResponseWriter, r *request) (any, error) {
	d, err := r.duration("for")
	if err != nil {
		return nil, err
	}
	pause := steers(func(q *fairlimit.Queue, ctx context.Context) error { return q.Pause(ctx, d) })
	_, err = pause(s, w, r) // it lasts longer if another one does
	return map[string]any{"done": true, "paused_ms": max(d, 2*engine.Within).Milliseconds()}, err
}

// steers handles what steers a queue, by a method of it.
func steers(do func(*fairlimit.Queue, context.Context) error) handle {
	return func(s *Server, _ http.ResponseWriter, r *request) (any, error) {
		q, err := s.find(r.Context(), r.PathValue("name"))
		if err != nil {
			return nil, err
		}
		return done, do(q.Queue, r.Context())
	}
}

// setQuotas and forgetQuotas are for queues that the server does not know, too.
func (s *Server) setQuotas(_ http.ResponseWriter, r *request) (any, error) {
	quotas, err := ParseQuotas(r.query.Get("quotas"))
	if err != nil {
		return nil, misused("quotas: %v", err)
	}
	q, err := s.openQueue(r.PathValue("name"), Quotas{Units: quotas.Units})
	if err != nil {
		return nil, err
	}
	return done, quotas.Store(r.Context(), q.Queue)
}

func (s *Server) forgetQuotas(_ http.ResponseWriter, r *request) (any, error) {
	q, err := s.openQueue(r.PathValue("name"), Quotas{})
	if err != nil {
		return nil, err
	}
	return done, q.ForgetQuotas(r.Context())
}
