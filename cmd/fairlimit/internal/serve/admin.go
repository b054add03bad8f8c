package serve

import (
	"net/http"
)

func (s *Server) pause(w http.ResponseWriter, r *request) error {
	d, err := r.duration("for")
	if err != nil {
		return err
	}
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err == nil {
		err = q.Pause(r.Context(), d)
	}
	return done(w, err)
}

func (s *Server) reset(w http.ResponseWriter, r *request) error {
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err == nil {
		err = q.Reset(r.Context())
	}
	return done(w, err)
}

// setQuotas and forgetQuotas are for queues that the server does not know, too.
func (s *Server) setQuotas(w http.ResponseWriter, r *request) error {
	var quotas Quotas
	err := quotas.Add(r.query.Get("quotas"))
	if err == nil {
		err = quotas.Asked()
	}
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
