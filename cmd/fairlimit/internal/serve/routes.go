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

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// route is one line of the table of all that the server answers. The OpenAPI
// document has the same, as a test says.
type route struct {
	method, path string
	params       string // of the query; any other is an error
	kind         kind

	// handle returns the object to answer with, nil if it has answered itself.
	handle func(s *Server, w http.ResponseWriter, r *request) (any, error)
}

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
	{"POST", "/v1/queues/{name}/resume", "", adminOnly, (*Server).resume},
	{"POST", "/v1/queues/{name}/requeue", "", adminOnly, (*Server).requeue},
	{"POST", "/v1/queues/{name}/reset", "", adminOnly, (*Server).reset},
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
				s.answer(r.Context(), w, object, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.answer(r.Context(), w, nil, errNoRoute) })
	return s.guarded(addr, mux)
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

func (s *Server) list(_ http.ResponseWriter, r *request) (any, error) {
	all := []picture.Queue{}
	for _, q := range s.queues.all() {
		p, err := s.pictureOf(r.Context(), q)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return map[string]any{"queues": all}, nil
}

func (s *Server) status(_ http.ResponseWriter, r *request) (any, error) {
	q, err := s.queues.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return s.pictureOf(r.Context(), q)
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
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, object any, err error) {
	status, text := s.told(ctx, w.Header(), object, err)
	_ = send(w, status, "application/json", text)
}

// told is what is answered, with its headers.
func (s *Server) told(ctx context.Context, h http.Header, object any, err error) (status int, text []byte) {
	status = http.StatusOK
	if err != nil {
		status, object = s.problem(ctx, h, err)
	}
	text, _ = json.Marshal(object)
	return status, append(text, '\n')
}

// send writes all of an answer.
func send(w http.ResponseWriter, status int, kind string, text []byte) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
	return nil
}
