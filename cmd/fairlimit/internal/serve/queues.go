package serve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/promlimit"
)

// queue is one that callers have asked for: there is one limiter for each name, so
// that all callers of the name share its questions.
type queue struct {
	*fairlimit.Queue
	source  picture.Source
	metrics *promlimit.Metrics
	waiting atomic.Int64 // requests for turns that have no answer yet

	mu   sync.Mutex // of a look at it
	at   time.Time
	seen picture.Queue
	err  error
}

// errNoQueue is for names that nobody may wait under.
var errNoQueue = errors.New("no such queue: serve was given no quota of it, and `fairlimit quota` has stored none")

// openQueue makes a queue that goes by its stored quota, else by those given.
func (s *Server) openQueue(name string, given Quotas) (*queue, error) {
	if !utf8.ValidString(name) {
		return nil, misused("the name is not UTF-8")
	}
	metrics := promlimit.New(name)
	opts := append([]fairlimit.Option{
		fairlimit.WithPrefix(s.Prefix), fairlimit.WithTrace(metrics.Trace()), fairlimit.WithStoredQuota(),
	}, s.Options...)
	limiter, err := given.Queue(s.Redis, name, opts...)
	if err != nil {
		return nil, err
	}
	metrics.Watch(limiter)
	return &queue{Queue: limiter, metrics: metrics, source: picture.Source{
		Redis: s.Redis, Prefix: s.Prefix, Name: name, Queue: limiter, Calls: given.Calls, Units: given.Units,
	}}, nil
}

// find returns the queue of a name. One that was not given needs a stored quota.
func (s *Server) find(ctx context.Context, name string) (*queue, error) {
	if known := s.peek(name); known != nil {
		return known, nil
	}
	made, err := s.openQueue(name, Quotas{})
	if err != nil {
		return nil, err
	}
	if quotas, _, err := made.Quotas(ctx); err != nil {
		return nil, err
	} else if len(quotas) == 0 {
		return nil, errNoQueue
	}
	return s.keepQueue(made), nil
}

// peek returns nil if the queue is not known.
func (s *Server) peek(name string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name]
}

// keepQueue returns the queue of that name that came first.
func (s *Server) keepQueue(made *queue) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[made.source.Name]; known != nil {
		return known
	}
	s.known[made.source.Name] = made
	s.registry.MustRegister(made.metrics)
	return made
}

// drop forgets a queue whose stored quota is gone.
func (s *Server) drop(gone *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[gone.source.Name] == gone {
		delete(s.known, gone.source.Name)
		s.registry.Unregister(gone.metrics)
	}
}

// all are the queues that are known, by name.
func (s *Server) all() (all []*queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.known {
		all = append(all, known)
	}
	slices.SortFunc(all, func(a, b *queue) int { return strings.Compare(a.source.Name, b.source.Name) })
	return all
}

// look is the queue as it stood at most 50 ms ago, so that those who look do not
// hold up those who wait.
func (q *queue) look(ctx context.Context) (picture.Queue, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.at) > 50*time.Millisecond {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		q.seen, q.err = q.source.Look(ctx)
		q.at = time.Now()
	}
	return q.seen, q.err
}
