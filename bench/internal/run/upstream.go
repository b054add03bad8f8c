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
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Ledger is what the service does whose quota everybody shares. It admits at
// most so many permits in any half-open window of length per, on one clock, and
// writes down everything that reached it.
type Ledger struct {
	permits int
	per     time.Duration
	now     func() time.Duration

	mu       sync.Mutex
	arrivals []measure.Call
	oldest   int // the first arrival that still counts
	within   int // permits admitted since then
	closed   time.Duration
	eras     []measure.Era
}

// NewLedger has seen nothing yet.
func NewLedger(permits int, per time.Duration, now func() time.Duration) *Ledger {
	return &Ledger{permits: permits, per: per, now: now}
}

// Close turns everybody away for so long. It returns from when to when.
func (l *Ledger) Close(d time.Duration) measure.Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.now()
	l.closed = from + d
	return measure.Span{From: from, To: l.closed}
}

// Change makes it another number of permits from now on. Anew forgets who was
// admitted before, so that no window counts that began earlier.
func (l *Ledger) Change(permits int, anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.permits = permits
	l.eras = append(l.eras, measure.Era{From: l.now(), Permits: permits, Anew: anew})
	if anew {
		l.oldest, l.within = len(l.arrivals), 0
	}
}

// Eras are the changes so far.
func (l *Ledger) Eras() []measure.Era {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.eras)
}

// Arrive stamps the call, writes it down and returns it. If the upstream is
// closed, it says for how much longer. A call that is rejected takes nothing
// from the quota.
func (l *Ledger) Arrive(c measure.Call) (arrived measure.Call, closed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Reached, c.Arrived = true, l.now()
	for ; l.oldest < len(l.arrivals) && l.arrivals[l.oldest].Arrived <= c.Arrived-l.per; l.oldest++ {
		if gone := l.arrivals[l.oldest]; !gone.Rejected {
			l.within -= gone.Permits
		}
	}
	closed = max(0, l.closed-c.Arrived)
	c.Closed = closed > 0
	c.Rejected = c.Closed || c.Permits > l.permits-l.within
	if !c.Rejected {
		l.within += c.Permits
	}
	l.arrivals = append(l.arrivals, c)
	return c, closed
}

// Arrivals are all so far, in order.
func (l *Ledger) Arrivals() []measure.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.arrivals)
}

// Count is how many arrived so far.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.arrivals)
}

// Upstream is a ledger behind HTTP on a free port of the loopback interface.
type Upstream struct {
	URL    string
	server *http.Server
}

// Serve starts an upstream; Close ends it.
func Serve(ledger *Ledger) (*Upstream, error) {
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
