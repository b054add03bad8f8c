package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// route is one line of the table of all that the server answers. The OpenAPI
// document has the same, as a test says.
type route struct {
	method, path string
	params       []string // of the query; any other is an error
	handle       func(s *Server, w http.ResponseWriter, r *request) error
	admin        bool // only with -admin
	open         bool // also without a token
}

var routes = []route{
	{"POST", "/v1/queues/{name}/turn", []string{"permits", "timeout", "flow", "weight"}, (*Server).turn, false, false},
	{"POST", "/v1/queues/{name}/reserve", []string{"permits", "flow", "weight"}, (*Server).reserve, false, false},
	{"DELETE", "/v1/turns/{turn}", nil, (*Server).giveBack, false, false},
	{"GET", "/v1/queues", nil, (*Server).list, false, false},
	{"GET", "/v1/queues/{name}", nil, (*Server).status, false, false},
	{"GET", "/v1/queues/{name}/events", nil, (*Server).events, false, false},
	{"POST", "/v1/queues/{name}/pause", []string{"for"}, (*Server).pause, true, false},
	{"POST", "/v1/queues/{name}/reset", nil, (*Server).reset, true, false},
	{"POST", "/v1/queues/{name}/quota", []string{"quotas"}, (*Server).setQuotas, true, false},
	{"DELETE", "/v1/queues/{name}/quota", nil, (*Server).forgetQuotas, true, false},
	{"GET", "/metrics", nil, (*Server).metrics, false, false},
	{"GET", "/healthz", nil, (*Server).healthz, false, true},
	{"GET", "/openapi.json", nil, (*Server).openAPI, false, true},
	{"GET", "/{$}", nil, (*Server).page, false, true},
}

// request is one whose query has been read.
type request struct {
	*http.Request
	query url.Values
}

// handler answers everything. What it refuses has asked Redis nothing.
func (s *Server) handler(addr net.Addr) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, r *http.Request) {
			read, err := s.admit(route, r)
			if err == nil {
				err = route.handle(s, w, read)
			}
			if err != nil {
				s.fail(w, r, err)
			}
		})
	}
	return s.guarded(addr, mux)
}

// admit says whether a request may be handled, and reads its query.
func (s *Server) admit(route route, r *http.Request) (*request, error) {
	if err := s.authorized(route, r); err != nil {
		return nil, err
	}
	if route.admin && !s.Admin {
		return nil, refusal{http.StatusForbidden, "only a server that was started with -admin does this"}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, misused("the query cannot be read")
	}
	for key, values := range query {
		if !slices.Contains(route.params, key) {
			return nil, misused("there is no parameter %.40q", key)
		}
		if len(values) > 1 {
			return nil, misused("%s is given twice", key)
		}
	}
	return &request{r, query}, nil
}

// asked is what a caller wants.
type asked struct {
	queue   *queue
	limiter *fairlimit.Queue // of the flow, if there is one
	permits int
}

// ask reads what a caller wants, and counts it as one that waits. Leave undoes
// that.
func (s *Server) ask(r *request) (a asked, err error) {
	a.permits = 1
	if text := r.query.Get("permits"); r.query.Has("permits") {
		if a.permits, err = strconv.Atoi(text); err != nil || a.permits < 1 {
			return a, misused("permits: %.20q is no number from 1 on", text)
		}
	}
	weight := 1
	if text := r.query.Get("weight"); r.query.Has("weight") {
		if weight, err = strconv.Atoi(text); err != nil || !r.query.Has("flow") {
			return a, misused("weight: want a number, and a flow")
		}
	}
	flow := r.query.Get("flow")
	if r.query.Has("flow") {
		if err := checkText("flow", flow); err != nil {
			return a, err
		}
	}
	if s.waiting.Add(1) > int64(s.MostWaiting) {
		s.waiting.Add(-1)
		s.queues.tooMany(r.PathValue("name"))
		return a, fmt.Errorf("%w: %d requests wait", errTooMany, s.MostWaiting)
	}
	if a.queue, err = s.queues.find(r.Context(), r.PathValue("name")); err == nil {
		a.limiter = a.queue.Queue
		if flow != "" {
			a.limiter, err = a.queue.Flow(flow, weight)
		}
	}
	if err != nil {
		s.leave()
	}
	return a, err
}

func (s *Server) leave() { s.waiting.Add(-1) }

// turn answers when the turn has come.
func (s *Server) turn(w http.ResponseWriter, r *request) error {
	timeout := time.Duration(0)
	if text := r.query.Get("timeout"); r.query.Has("timeout") {
		var err error
		if timeout, err = duration("timeout", text); err != nil {
			return err
		}
	}
	a, err := s.ask(r)
	if err != nil {
		return err
	}
	if s.waiting.Load() > s.crowd {
		return s.waitApart(w, a, timeout)
	}
	return s.wait(r.Context(), w, a, timeout)
}

// wait is turn for a caller that has been counted.
func (s *Server) wait(ctx context.Context, w http.ResponseWriter, a asked, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	began := time.Now()
	err := a.limiter.WaitN(ctx, a.permits)
	s.leave()
	waited := time.Since(began)
	a.queue.history.add(waited, err)
	if err != nil {
		return s.noTurn(a.queue, err)
	}
	return answer(w, http.StatusOK, map[string]any{"turn": rand.Text(), "waited_ms": waited.Milliseconds()})
}

// noTurn forgets a queue without a quota.
func (s *Server) noTurn(q *queue, err error) error {
	if errors.Is(err, fairlimit.ErrNoQuota) {
		s.queues.drop(q)
		return errNoQueue
	}
	return err
}

// reserve answers at once with a turn that comes later.
func (s *Server) reserve(w http.ResponseWriter, r *request) error {
	a, err := s.ask(r)
	if err != nil {
		return err
	}
	if err = s.turns.enter(); err != nil {
		s.leave()
		return err
	}
	reservation, err := a.limiter.ReserveN(r.Context(), a.permits)
	s.leave()
	if err != nil {
		s.turns.leave()
		return s.noTurn(a.queue, err)
	}
	delay := reservation.Delay()
	name := s.turns.keep(reservation)
	err = answer(w, http.StatusOK, map[string]any{"turn": name, "in_ms": float64(delay.Microseconds()) / 1e3})
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil || r.Context().Err() != nil { // nobody knows of it
		if _, err := s.turns.take(name); err == nil {
			_ = reservation.Cancel(context.WithoutCancel(r.Context()))
		}
	}
	return nil
}

func (s *Server) giveBack(w http.ResponseWriter, r *request) error {
	reservation, err := s.turns.take(r.PathValue("turn"))
	if err != nil {
		return err
	}
	ahead := reservation.Delay() > 0
	if err := reservation.Cancel(context.WithoutCancel(r.Context())); err != nil {
		return err
	}
	return answer(w, http.StatusOK, map[string]any{"given_back": ahead})
}

func (s *Server) list(w http.ResponseWriter, r *request) error {
	all, err := s.pictures.get(func() ([]picture.Queue, error) {
		all := []picture.Queue{}
		for _, q := range s.queues.all() {
			p, err := s.pictureOf(context.WithoutCancel(r.Context()), q)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, map[string]any{"queues": all})
}

func (s *Server) status(w http.ResponseWriter, r *request) error {
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	p, err := s.pictureOf(r.Context(), q)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, p)
}

// duration reads one that is more than 0.
func duration(what, text string) (time.Duration, error) {
	d, err := quotatext.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("want more than 0")
	}
	if err != nil {
		return 0, misused("%s: %v", what, err)
	}
	return d, nil
}

// answer writes an object. An error is one of the connection.
func answer(w http.ResponseWriter, status int, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
	return nil
}
