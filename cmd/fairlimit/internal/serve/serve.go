// Package serve answers callers in any language over HTTP: it waits for their
// turns in the queues of package fairlimit, and shows these queues.
package serve

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
)

const (
	// slowTimeout is how long a client may take to send the header of a request,
	// or a body, which has to be empty, and to take an answer.
	slowTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute // between two requests of a connection
	mostHeader  = 16 << 10

	// spareConnections may be open beside those that wait: for what is answered
	// at once, for viewers, and for clients that keep connections. Each holds some
	// 10 KB, so all of them hold 40 MB.
	spareConnections = 4096

	// endTimeout is how long the end takes at most: callers are told, and what
	// they leave is given back.
	endTimeout    = 4 * time.Second
	settleTimeout = 800 * time.Millisecond
)

// Config is what a [Server] is made of.
type Config struct {
	Redis  redis.UniversalClient
	Prefix string
	Quotas map[string]Quotas // by name; other names need a stored quota
	Guard  time.Duration     // that of WithGuard, or picture.DefaultGuard

	MostWaiting int    // connections that may wait at once
	Admin       bool   // what steers a queue is allowed
	Token       string // empty: none is wanted
	Host        string // by which callers of another machine may ask, beside the machine's own
	Log         *log.Logger

	// Those of the constants if they are 0.
	crowd       int64
	slow        time.Duration
	connections int // that may be open beside those that wait
}

// Server serves queues. [New] makes it.
type Server struct {
	Config
	queues   *queues
	turns    turns
	commands InFlight
	health   recent[*picture.State]
	scraped  recent[[]*dto.MetricFamily]
	waiting  atomic.Int64
	watchers atomic.Int64
	open     atomic.Int64 // connections, without those that wait apart
	quiet    atomic.Int64 // until when failures of Redis are not logged, as UnixNano

	registry *prometheus.Registry
	answers  *prometheus.CounterVec // by status

	base  context.Context // ends when the server does
	apart atomic.Int64    // those that wait apart
}

// New makes a server. It asks Redis once: without an answer there is nothing to
// serve.
func New(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{Config: cfg, registry: prometheus.NewRegistry()}
	s.makeMetrics()
	s.turns.byName = map[string]*list.Element{}
	s.crowd, s.slow = cmp.Or(s.crowd, crowd), cmp.Or(s.slow, slowTimeout)
	s.connections = cmp.Or(s.connections, spareConnections)
	s.queues = &queues{
		Config: cfg, registry: s.registry, known: map[string]*queue{}, unknown: make(chan struct{}, mostUnknown),
	}
	cfg.Redis.AddHook(&s.commands)
	for name, quotas := range cfg.Quotas {
		made, err := s.queues.open(name, quotas)
		if err != nil {
			return nil, err
		}
		s.queues.add(made)
	}
	_, err := s.inspect(ctx, "fairlimit-serve")
	return s, err
}

func (s *Server) inspect(ctx context.Context, name string) (*picture.State, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return picture.Inspect(ctx, s.Redis, name, s.Prefix)
}

// errEnding is why requests end when the server does.
var errEnding = errors.New("this server is ending, and gave the turn back")

// Serve answers until ctx ends. Then callers that wait are told so, and their
// turns are given back. Reservations stand: whoever holds one may go.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	s.base = base
	server := &http.Server{
		Handler: s.handler(l.Addr()), ReadHeaderTimeout: s.slow, IdleTimeout: idleTimeout,
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
	for s.apart.Load() > 0 && soon.Err() == nil {
		time.Sleep(2 * time.Millisecond)
	}
	s.commands.Settle(settleTimeout)
	return nil
}
