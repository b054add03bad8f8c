// Package fake stands in for the services that the examples call. The library
// that an example uses is the real one, and so is the HTTP between the two.
package fake

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fairlimit/fairlimit"
)

// Service is an HTTP server that writes down when it was called.
type Service struct {
	URL string

	mu    sync.Mutex
	calls []time.Time
}

// Start starts a service that ends with the test. It answers the nth call,
// counted from 1, as the test says.
func Start(t testing.TB, answer func(call int, w http.ResponseWriter, r *http.Request)) *Service {
	s := &Service{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls = append(s.calls, time.Now())
		call := len(s.calls)
		s.mu.Unlock()
		answer(call, w, r)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Calls are the times at which the service was called so far.
func (s *Service) Calls() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.calls...)
}

// Status is how the limiter stands.
func Status(t testing.TB, l fairlimit.Limiter) fairlimit.Status {
	t.Helper()
	status, err := l.Status(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return status
}
