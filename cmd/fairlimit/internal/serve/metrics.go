package serve

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
)

// statusGone stands for a client that closed its connection while it waited.
const statusGone = 499

// makeMetrics makes those of the server itself.
func (s *Server) makeMetrics() {
	s.answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlimit_serve_answers_total", Help: "Answers by status; 499: the client closed its connection.",
	}, []string{"status"})
	s.registry.MustRegister(s.answers, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlimit_serve_waiting", Help: "Requests for turns that have no answer yet.",
	}, func() float64 { return float64(s.waiting.Load()) }))
}

// counted is a response whose status is counted.
type counted struct {
	http.ResponseWriter
	server *Server
	told   bool
}

func (c *counted) WriteHeader(status int) {
	c.told = true
	c.server.answers.WithLabelValues(strconv.Itoa(status)).Inc()
	if status == statusGone {
		panic(http.ErrAbortHandler) // which closes the connection and logs nothing
	}
	_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Now().Add(c.server.slow))
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(text []byte) (int, error) {
	if !c.told {
		c.WriteHeader(http.StatusOK)
	}
	return c.ResponseWriter.Write(text)
}

// Unwrap is for [http.ResponseController].
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (s *Server) metrics(w http.ResponseWriter, r *request) (any, error) {
	gather := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return s.scraped.get(time.Second, s.registry.Gather)
	})
	promhttp.HandlerFor(gather, promhttp.HandlerOpts{ErrorLog: s.Log}).ServeHTTP(w, r.Request)
	return nil, nil
}

// recent is what was read a moment ago, however many ask for it.
type recent[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

func (r *recent[T]) get(age time.Duration, read func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) > age {
		r.value, r.err = read()
		r.at = time.Now()
	}
	return r.value, r.err
}

func (s *Server) healthz(_ http.ResponseWriter, r *request) (any, error) {
	_, err := s.health.get(time.Second, func() (*picture.State, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Second)
		defer cancel()
		return s.inspect(ctx, "fairlimit-serve")
	})
	if err != nil {
		s.tell(err)
		return nil, refusal{http.StatusServiceUnavailable, "Redis does not answer"}
	}
	return map[string]any{"ok": true}, nil
}
