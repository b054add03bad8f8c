package serve

import "net/http"

func (s *Server) pause(w http.ResponseWriter, r *request) error {
	d, err := r.duration("for")
	if err != nil {
		return err
	}
	return s.steer(w, r, func(q *queue) error { return q.Pause(r.Context(), d) })
}

func (s *Server) reset(w http.ResponseWriter, r *request) error {
	return s.steer(w, r, func(q *queue) error { return q.Reset(r.Context()) })
}

func (s *Server) steer(w http.ResponseWriter, r *request, do func(*queue) error) error {
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err == nil {
		err = do(q)
	}
	return done(w, err)
}

// setQuotas and forgetQuotas are for queues that the server does not know, too.
func (s *Server) setQuotas(w http.ResponseWriter, r *request) error {
	quotas, err := ParseQuotas(r.query.Get("quotas"))
	if err != nil {
		return misused("quotas: %v", err)
	}
	q, err := s.queues.open(r.PathValue("name"), Quotas{Units: quotas.Units})
	if err == nil {
		err = quotas.Store(r.Context(), q.Queue)
	}
	return done(w, err)
}

func (s *Server) forgetQuotas(w http.ResponseWriter, r *request) error {
	q, err := s.queues.open(r.PathValue("name"), Quotas{})
	if err == nil {
		err = q.ForgetQuotas(r.Context())
	}
	return done(w, err)
}

func done(w http.ResponseWriter, err error) error {
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, map[string]any{"done": true})
}
