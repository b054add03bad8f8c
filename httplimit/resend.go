package httplimit

import (
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
)

// An [http.Transport] sends a request again by itself if the server closed the
// connection, or refused the stream, before it answered. The server may have
// counted the request each time. So each further sending waits for a turn as well.

// sending is one RoundTrip of the base, which may send the request repeatedly.
type sending struct {
	turn func() error // waits for a further turn

	mu      sync.Mutex
	sent    bool  // since the last turn
	http2   bool  // it was sent by HTTP/2
	refused error // of a further turn
}

// send sends the request, in the turn that it has. Each further sending waits for
// a turn first.
func (t *Transport) send(req *http.Request, turn func() error) (*http.Response, error) {
	if req.URL == nil {
		return t.base().RoundTrip(req) // which says so
	}
	s := &sending{turn: turn}
	url := *req.URL
	stop := func() {
		// No base can send a request with such a URL, nor find an idle connection
		// for it. A hook of a trace cannot return an error.
		url.Host, url.Opaque = "\n", "\n"
	}
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		// HTTP/1 waits before it takes a connection, which could end meanwhile.
		// HTTP/2 calls GetConn with its pool locked, so there the stream waits.
		GetConn:          func(string) { s.again(false, stop) },
		GotConn:          func(httptrace.GotConnInfo) { s.again(true, stop) },
		WroteHeaderField: s.wrote,
	})
	attempt := req.WithContext(ctx)
	attempt.URL = &url
	resp, err := t.base().RoundTrip(attempt)
	if resp != nil && resp.Request == attempt {
		resp.Request = req
	}
	if refused := s.failed(); err != nil && refused != nil {
		return resp, refused
	}
	return resp, err
}

// wrote notes that a header is being sent.
func (s *sending) wrote(name string, _ []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = true
	s.http2 = strings.HasPrefix(name, ":") || s.http2
}

// again waits for a turn if the request was sent in the last one. If it gets none,
// it stops the sending.
func (s *sending) again(connected bool, stop func()) {
	s.mu.Lock()
	wait := s.sent && s.refused == nil && (connected || !s.http2)
	if wait {
		s.sent = false
	}
	s.mu.Unlock()
	if !wait {
		return
	}
	if err := s.turn(); err != nil {
		stop()
		s.mu.Lock()
		s.refused = err
		s.mu.Unlock()
	}
}

func (s *sending) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}
