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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/promlimit"
)

// queues are those that callers have asked for: one limiter for each name, so
// that all callers of the name share its questions.
type queues struct {
	Config
	registry *prometheus.Registry

	mu    sync.Mutex
	known map[string]*queue
}

// queue is one of them.
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

// open makes a queue that goes by its stored quota, else by those given.
func (q *queues) open(name string, given Quotas) (*queue, error) {
	if !utf8.ValidString(name) {
		return nil, misused("the name is not UTF-8")
	}
	metrics := promlimit.New(name)
	opts := append([]fairlimit.Option{
		fairlimit.WithPrefix(q.Prefix), fairlimit.WithTrace(metrics.Trace()), fairlimit.WithStoredQuota(),
	}, q.Options...)
	limiter, err := given.Queue(q.Redis, name, opts...)
	if err != nil {
		return nil, err
	}
	metrics.Watch(limiter)
	return &queue{Queue: limiter, metrics: metrics, source: picture.Source{
		Redis: q.Redis, Prefix: q.Prefix, Name: name, Queue: limiter, Calls: given.Calls, Units: given.Units,
	}}, nil
}

// find returns the queue of a name. One that was not given needs a stored quota.
func (q *queues) find(ctx context.Context, name string) (*queue, error) {
	if known := q.peek(name); known != nil {
		return known, nil
	}
	made, err := q.open(name, Quotas{})
	if err != nil {
		return nil, err
	}
	if quotas, _, err := made.Quotas(ctx); err != nil {
		return nil, err
	} else if len(quotas) == 0 {
		return nil, errNoQueue
	}
	return q.keep(made), nil
}

// peek returns nil if the queue is not known.
func (q *queues) peek(name string) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.known[name]
}

// keep returns the queue of that name that came first.
func (q *queues) keep(made *queue) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.known[made.source.Name]; known != nil {
		return known
	}
	q.known[made.source.Name] = made
	q.registry.MustRegister(made.metrics)
	return made
}

// drop forgets a queue whose stored quota is gone.
func (q *queues) drop(gone *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[gone.source.Name] == gone {
		delete(q.known, gone.source.Name)
		q.registry.Unregister(gone.metrics)
	}
}

// all are the queues that are known, by name.
func (q *queues) all() (all []*queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, known := range q.known {
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
