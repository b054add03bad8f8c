package serve

import (
	"net/http"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

func (s *Server) pause(w http.ResponseWriter, r *request) error {
	d, err := duration("for", r.query.Get("for"))
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
	read, err := quotatext.Parse(r.query.Get("quotas"))
	if err != nil {
		return misused("quotas: %v", err)
	}
	quotas := make([]fairlimit.Quota, len(read))
	for i, q := range read {
		quotas[i] = fairlimit.Quota(q)
	}
	q, err := s.queues.open(r.PathValue("name"))
	if err == nil {
		err = q.SetQuotas(r.Context(), quotas...)
	}
	return done(w, err)
}

func (s *Server) forgetQuotas(w http.ResponseWriter, r *request) error {
	q, err := s.queues.open(r.PathValue("name"))
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
