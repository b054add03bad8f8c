package serve

import "net/http"

// done is the answer to what has been done.
var done = map[string]any{"done": true}

func (s *Server) pause(_ http.ResponseWriter, r *request) (any, error) {
	d, err := r.duration("for")
	if err != nil {
		return nil, err
	}
	return s.steer(r, func(q *queue) error { return q.Pause(r.Context(), d) })
}

func (s *Server) resume(_ http.ResponseWriter, r *request) (any, error) {
	return s.steer(r, func(q *queue) error { return q.Resume(r.Context()) })
}

func (s *Server) requeue(_ http.ResponseWriter, r *request) (any, error) {
	return s.steer(r, func(q *queue) error { return q.Requeue(r.Context()) })
}

func (s *Server) reset(_ http.ResponseWriter, r *request) (any, error) {
	return s.steer(r, func(q *queue) error { return q.Reset(r.Context()) })
}

func (s *Server) steer(r *request, do func(*queue) error) (any, error) {
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return done, do(q)
}

// setQuotas and forgetQuotas are for queues that the server does not know, too.
func (s *Server) setQuotas(_ http.ResponseWriter, r *request) (any, error) {
	quotas, err := ParseQuotas(r.query.Get("quotas"))
	if err != nil {
		return nil, misused("quotas: %v", err)
	}
	q, err := s.queues.open(r.PathValue("name"), Quotas{Units: quotas.Units})
	if err != nil {
		return nil, err
	}
	return done, quotas.Store(r.Context(), q.Queue)
}

func (s *Server) forgetQuotas(_ http.ResponseWriter, r *request) (any, error) {
	q, err := s.queues.open(r.PathValue("name"), Quotas{})
	if err != nil {
		return nil, err
	}
	return done, q.ForgetQuotas(r.Context())
}
