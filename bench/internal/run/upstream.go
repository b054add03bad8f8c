package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Upstream is a ledger behind HTTP on a free port of the loopback interface.
type Upstream struct {
	URL    string
	server *http.Server
}

// Serve starts an upstream; Close ends it.
func Serve(ledger *measure.Ledger) (*Upstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the upstream cannot listen on loopback: %w", err)
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // a visitor opens its connection
			return
		}
		var call measure.Call
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		call, closed := ledger.Arrive(call)
		if call.Closed {
			w.Header().Set(retryAfter, strconv.FormatFloat(closed.Seconds(), 'f', 6, 64))
		}
		if call.Rejected {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
	u := &Upstream{URL: "http://" + listener.Addr().String(), server: &http.Server{Handler: http.HandlerFunc(handle)}}
	go u.server.Serve(listener) // returns ErrServerClosed on Close
	return u, nil
}

// Close ends the server and its connections.
func (u *Upstream) Close() error { return u.server.Close() }

// retryAfter is the header by which a closed upstream says for how much longer.
// Here it has decimals, so that runs of a second can be measured as well.
const retryAfter = "Retry-After"

// Visitor is one caller's way to the upstream: a connection of its own, opened
// beforehand and kept, so that no arrival waits for another's turn on the wire
// or for a handshake.
type Visitor struct {
	url    string
	client *http.Client
}

// NewVisitor opens the connection.
func NewVisitor(ctx context.Context, url string) (*Visitor, error) {
	v := &Visitor{url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	_, err := v.send(ctx, http.MethodGet, nil)
	return v, err
}

// Visit is one request of the upstream. A 429 is no error: the ledger has it. If
// it says when to come back, that is returned, else 0.
func (v *Visitor) Visit(ctx context.Context, c measure.Call) (closed time.Duration, err error) {
	c.Turn = nil // nothing that the upstream needs
	text, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	return v.send(ctx, http.MethodPost, text)
}

func (v *Visitor) send(ctx context.Context, method string, body []byte) (closed time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, method, v.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := v.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("the upstream was not reached: %w", err)
	}
	switch after := response.Header.Get(retryAfter); {
	case after != "":
		closed, err = time.ParseDuration(after + "s")
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests:
		err = fmt.Errorf("the upstream answered %d", response.StatusCode)
	}
	_, drained := io.Copy(io.Discard, response.Body) // to the end, or the connection is not kept
	return closed, errors.Join(err, drained, response.Body.Close())
}
