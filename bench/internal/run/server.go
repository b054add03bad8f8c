package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Server puts a ledger behind HTTP on a free port of the loopback interface.
type Server struct {
	URL    string
	server *http.Server
}

// Serve starts a server; Close ends it.
func Serve(ledger *Ledger) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the upstream cannot listen on loopback: %w", err)
	}
	s := &Server{URL: "http://" + listener.Addr().String(), server: &http.Server{Handler: handler(ledger)}}
	go s.server.Serve(listener) // returns ErrServerClosed on Close
	return s, nil
}

// Close ends the server and its connections.
func (s *Server) Close() error { return s.server.Close() }

func handler(ledger *Ledger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		arrival, err := read(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		admitted, closed := ledger.Arrive(arrival)
		if closed > 0 {
			w.Header().Set(retryAfter, strconv.FormatFloat(closed.Seconds(), 'f', 6, 64))
		}
		if !admitted {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	return mux
}

// retryAfter is the header by which a closed upstream says for how much longer.
// Here it has decimals, so that runs of a second can be measured as well.
const retryAfter = "Retry-After"

func read(q url.Values) (a Arrival, err error) {
	for name, field := range map[string]*int{
		"client": &a.Client, "caller": &a.Caller, "seq": &a.Seq, "permits": &a.Permits,
	} {
		if *field, err = strconv.Atoi(q.Get(name)); err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
	}
	a.Called, err = time.ParseDuration(q.Get("called"))
	return a, err
}

// Visitor is one caller's way to the upstream: a connection of its own, opened
// beforehand and kept, so that no arrival waits for another's turn on the wire
// or for a handshake.
type Visitor struct {
	url    string
	client *http.Client
}

// NewVisitor opens the connection.
func NewVisitor(ctx context.Context, server string) (*Visitor, error) {
	v := &Visitor{url: server, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	_, _, err := v.send(ctx, http.MethodGet, "/hello")
	return v, err
}

// Visit is one request of the upstream. A 429 is no error: the ledger has it. If
// it says when to come back, that is returned, else 0.
func (v *Visitor) Visit(ctx context.Context, a Arrival) (closed time.Duration, err error) {
	status, closed, err := v.send(ctx, http.MethodPost, "/call?"+url.Values{
		"client":  {strconv.Itoa(a.Client)},
		"caller":  {strconv.Itoa(a.Caller)},
		"seq":     {strconv.Itoa(a.Seq)},
		"permits": {strconv.Itoa(a.Permits)},
		"called":  {a.Called.String()},
	}.Encode())
	if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests {
		return 0, fmt.Errorf("the upstream answered %d", status)
	}
	return closed, err
}

func (v *Visitor) send(ctx context.Context, method, path string) (status int, closed time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, method, v.url+path, nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := v.client.Do(request)
	if err != nil {
		return 0, 0, fmt.Errorf("the upstream was not reached: %w", err)
	}
	if after := response.Header.Get(retryAfter); after != "" {
		closed, err = time.ParseDuration(after + "s")
	}
	_, drained := io.Copy(io.Discard, response.Body) // to the end, or the connection is not kept
	return response.StatusCode, closed, errors.Join(err, drained, response.Body.Close())
}
