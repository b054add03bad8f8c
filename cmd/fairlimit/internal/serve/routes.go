package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// route is one line of the table of all that the server answers. The OpenAPI
// document has the same, as a test says.
type route struct {
	method, path string
	params       string // of the query; any other is an error
	kind         kind
	handle       handle
}

// handle returns the object to answer with, nil if it has answered itself.
type handle func(s *Server, w http.ResponseWriter, r *request) (any, error)

type kind int

const (
	plain     kind = iota
	withUnits      // a parameter may be a unit as well
	adminOnly      // with -admin
	open           // also without a token
)

var routes = []route{
	{"POST", "/v1/queues/{name}/turn", "permits timeout flow weight", withUnits, (*Server).turn},
	{"POST", "/v1/queues/{name}/reserve", "permits flow weight", withUnits, (*Server).reserve},
	{"POST", "/v1/turns/{turn}/settle", "permits", withUnits, (*Server).settle},
	{"DELETE", "/v1/turns/{turn}", "", plain, (*Server).giveBack},
	{"GET", "/v1/queues", "", plain, (*Server).list},
	{"GET", "/v1/queues/{name}", "", plain, (*Server).status},
	{"GET", "/v1/queues/{name}/events", "", plain, (*Server).events},
	{"POST", "/v1/queues/{name}/pause", "for", adminOnly, (*Server).pause},
	{"POST", "/v1/queues/{name}/resume", "", adminOnly, steers((*fairlimit.Queue).Resume)},
	{"POST", "/v1/queues/{name}/requeue", "", adminOnly, steers((*fairlimit.Queue).Requeue)},
	{"POST", "/v1/queues/{name}/reset", "", adminOnly, steers((*fairlimit.Queue).Reset)},
	{"POST", "/v1/queues/{name}/quota", "quotas", adminOnly, (*Server).setQuotas},
	{"DELETE", "/v1/queues/{name}/quota", "", adminOnly, (*Server).forgetQuotas},
	{"GET", "/metrics", "", plain, (*Server).metrics},
	{"GET", "/healthz", "", open, (*Server).healthz},
	{"GET", "/openapi.json", "", open, (*Server).openAPI},
	{"GET", "/{$}", "", open, (*Server).page},
}

// notUnits are parameters of some route. So no unit can have these names here.
const notUnits = "permits timeout flow weight"

// request is one whose query has been read.
type request struct {
	*http.Request
	query url.Values
}

var errNoRoute = errors.New("no such request: /openapi.json has them all, and their methods")

// handler answers everything. What it refuses has asked Redis nothing.
func (s *Server) handler(addr net.Addr) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, r *http.Request) {
			var object any
			read, err := s.admit(route, r)
			if err == nil {
				object, err = route.handle(s, w, read)
			}
			if object != nil || err != nil {
				s.answer(w, r, object, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, nil, errNoRoute) })
	return promhttp.InstrumentHandlerCounter(s.answers, s.guarded(addr, mux))
}

// admit says whether a request may be handled, and reads its query.
func (s *Server) admit(route route, r *http.Request) (*request, error) {
	if err := s.authorized(route, r); err != nil {
		return nil, err
	}
	if route.kind == adminOnly && !s.Admin {
		return nil, refusal{http.StatusForbidden, "only a server that was started with -admin does this"}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, misused("the query cannot be read")
	}
	for key, values := range query {
		isUnit := route.kind == withUnits && quotatext.IsUnit(key) && !has(notUnits, key)
		if !isUnit && !has(route.params, key) {
			return nil, misused("there is no parameter %.40q", key)
		}
		if len(values) > 1 {
			return nil, misused("%s is given twice", key)
		}
	}
	return &request{r, query}, nil
}

func has(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

// number is a parameter that counts something.
func (r *request) number(key string, otherwise int) (int, error) {
	if !r.query.Has(key) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(r.query.Get(key))
	if err != nil {
		return 0, misused("%s: %.20q is no number", key, r.query.Get(key))
	}
	return n, nil
}

// duration is a parameter that is more than 0.
func (r *request) duration(key string) (time.Duration, error) {
	d, err := Duration(r.query.Get(key))
	if err != nil {
		return 0, misused("%s: %v", key, err)
	}
	return d, nil
}

// answer tells an object, or why there is none.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, object any, err error) {
	status := http.StatusOK
	if err != nil {
		status, object = s.problem(r.Context(), w.Header(), err)
	}
	text, _ := json.Marshal(object)
	s.send(w, status, "application/json", append(text, '\n'))
}

// send writes all of an answer, for as long as a client may take to read it.
func (s *Server) send(w http.ResponseWriter, status int, kind string, text []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.slow))
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func (s *Server) list(_ http.ResponseWriter, r *request) (any, error) {
	all := []picture.Queue{}
	for _, q := range s.all() {
		p, err := q.look(r.Context())
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return map[string]any{"queues": all}, nil
}

func (s *Server) status(_ http.ResponseWriter, r *request) (any, error) {
	q, err := s.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return q.look(r.Context())
}

func (s *Server) metrics(w http.ResponseWriter, r *request) (any, error) {
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorLog: s.Log}).ServeHTTP(w, r.Request)
	return nil, nil
}

func (s *Server) healthz(_ http.ResponseWriter, r *request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := s.ask(ctx); err != nil {
		s.quiet.Do(func() { s.Log.Print(err) })
		return nil, refusal{http.StatusServiceUnavailable, "Redis does not answer"}
	}
	return map[string]any{"ok": true}, nil
}
