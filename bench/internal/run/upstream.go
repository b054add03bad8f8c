package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Serve starts the upstream: a ledger behind HTTP on a free port of the loopback
// interface. It tells its policy as the IETF's draft on RateLimit headers has it.
func Serve(ledger *measure.Ledger) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // a visitor opens its connection
			return
		}
		var call measure.Call
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		call = ledger.Arrive(call)
		w.Header().Set("RateLimit-Policy", ledger.Policy())
		if call.Rejected {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
}

// Visitor is one caller's way to the upstream: a connection of its own, opened
// beforehand and kept, so that no arrival waits for another's turn on the wire
// or for a handshake. It is one request. A 429 is no error.
type Visitor func(context.Context, measure.Call) (rejected bool, err error)

// NewVisitor opens the connection. A limiter may wait on the way.
func NewVisitor(ctx context.Context, url string, limiter engines.Acquirer) (Visitor, error) {
	client := &http.Client{Transport: sure{&http.Transport{MaxIdleConnsPerHost: 1000}}}
	send := func(ctx context.Context, method string, body []byte) (rejected bool, err error) {
		request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, fmt.Errorf("the upstream was not reached: %w", err)
		}
		rejected = response.StatusCode == http.StatusTooManyRequests
		if response.StatusCode != http.StatusOK && !rejected {
			err = fmt.Errorf("the upstream answered %d", response.StatusCode)
		}
		_, drained := io.Copy(io.Discard, response.Body) // to the end, or the connection is not kept
		return rejected, errors.Join(err, drained, response.Body.Close())
	}
	_, err := send(ctx, http.MethodGet, nil)
	if t, travels := limiter.(engines.Traveller); travels {
		client.Transport = t.Over(client.Transport)
	}
	return func(ctx context.Context, c measure.Call) (rejected bool, err error) {
		text, err := json.Marshal(c)
		if err != nil {
			return false, err
		}
		return send(ctx, http.MethodPost, text)
	}, err
}

// sure makes a call whose permit is spent even if the run has ended meanwhile.
type sure struct{ base http.RoundTripper }

func (s sure) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.base.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
}
