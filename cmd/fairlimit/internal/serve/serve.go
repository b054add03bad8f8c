// Package serve answers callers in any language over HTTP: it waits for their
// turns in the queues of package fairlimit, and shows these queues.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/fairlimit/fairlimit"
)

const (
	// slowTimeout is how long a client may take to send a request, and to take an
	// answer.
	slowTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute // between two requests of a connection
	mostHeader  = 16 << 10

	// spareConnections may be open beside those that wait: for what is answered
	// at once, for viewers, and for clients that keep connections.
	spareConnections = 4096

	// endTimeout is how long the end takes at most: callers are told, and what
	// they leave is given back.
	endTimeout   = 4 * time.Second
	drainTimeout = 800 * time.Millisecond
)

// Config is what a [Server] is made of.
type Config struct {
	Redis   redis.UniversalClient
	Prefix  string
	Quotas  map[string]Quotas  // by name; other names need a stored quota
	Options []fairlimit.Option // of all queues

	MostWaiting int64  // requests that may wait at once
	Admin       bool   // what steers a queue is allowed
	Token       string // empty: none is wanted
	Host        string // by which callers of another machine may ask, beside the machine's own
	Log         *log.Logger
}

// Server serves queues. [New] makes it.
type Server struct {
	Config
	slow     time.Duration
	turns    *lru.Cache[string, *held] // that callers hold, by the name that they were told
	waiting  atomic.Int64
	watchers atomic.Int64
	open     atomic.Int64   // connections
	quiet    rate.Sometimes // for failures of Redis, which come by the thousand

	mu    sync.Mutex
	known map[string]*queue // by name

	registry *prometheus.Registry
	answers  *prometheus.CounterVec // by status
}

// New makes a server. It asks Redis once: without an answer there is nothing to
// serve.
func New(ctx context.Context, cfg Config) (s *Server, err error) {
	s = &Server{
		Config: cfg, slow: slowTimeout, quiet: rate.Sometimes{Interval: 10 * time.Second},
		known: map[string]*queue{}, registry: prometheus.NewRegistry(),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlimit_serve_answers_total", Help: "Answers by status; 499: the client closed its connection.",
		}, []string{"code"}),
	}
	s.registry.MustRegister(s.answers, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlimit_serve_waiting", Help: "Requests for turns that have no answer yet.",
	}, func() float64 { return float64(s.waiting.Load()) }))
	if s.turns, err = lru.New[string, *held](mostTurns); err != nil {
		return nil, err
	}
	for name, quotas := range cfg.Quotas {
		made, err := s.openQueue(name, quotas)
		if err != nil {
			return nil, err
		}
		s.keepQueue(made)
	}
	return s, s.ask(ctx)
}

// ask fails if Redis does not answer.
func (s *Server) ask(ctx context.Context) error {
	q, err := fairlimit.Open(s.Redis, "fairlimit-serve", fairlimit.WithPrefix(s.Prefix))
	if err == nil {
		_, err = q.Status(ctx)
	}
	return err
}

// errEnding is why requests end when the server does.
var errEnding = errors.New("this server is ending, and gave the turn back")

// Serve answers until ctx ends. Then callers that wait are told so, and their
// turns are given back. Reservations stand: whoever holds one may go.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	server := &http.Server{
		Handler: s.handler(l.Addr()), ReadTimeout: s.slow, IdleTimeout: idleTimeout,
		MaxHeaderBytes: mostHeader, ErrorLog: s.Log, ConnState: s.bound,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	end(errEnding)
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if server.Shutdown(soon) != nil {
		_ = server.Close() // of those who do not take their answer
	}
	Drain(s.Redis, drainTimeout)
	return nil
}
