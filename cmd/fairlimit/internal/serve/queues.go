package serve

import (
	"context"
	"errors"
	"fmt"
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

const (
	longestName = 1024
	mostQueues  = 1000 // with a stored quota, beside those that the server was given
	mostUnknown = 4    // questions at once for names that are not known
)

// queues are those that callers have asked for: one limiter for each name, so
// that all callers of the name share its questions.
type queues struct {
	Config
	registry *prometheus.Registry

	unknown chan struct{} // those that are asked for: they must not use up the connections to Redis

	mu     sync.Mutex
	known  map[string]*queue
	stored int // of the known, those that are here only because of a stored quota
}

// queue is one of them.
type queue struct {
	*fairlimit.Queue
	name    string
	given   Quotas // that the server was given, if any
	metrics *promlimit.Metrics
	waiting atomic.Int64 // requests for turns that have no answer yet
	history history
	event   recent[string]
	picture recent[picture.Queue]
}

// errNoQueue is for names that nobody may wait under.
var errNoQueue = errors.New("no such queue: serve was given no quota of it, and `fairlimit quota` has stored none")

func checkText(what, text string) error {
	switch {
	case text == "":
		return misused("%s is empty", what)
	case len(text) > longestName:
		return misused("%s is longer than %d bytes", what, longestName)
	case !utf8.ValidString(text):
		return misused("%s is not UTF-8", what)
	}
	return nil
}

// open makes a queue that goes by its stored quota, else by those given.
func (q *queues) open(name string, given Quotas) (*queue, error) {
	if err := checkText("the name", name); err != nil {
		return nil, err
	}
	made := &queue{name: name, given: given, metrics: promlimit.New(name)}
	var err error
	made.Queue, err = given.Queue(q.Redis, name, q.Guard, fairlimit.WithPrefix(q.Prefix),
		fairlimit.WithTrace(made.metrics.Trace()), fairlimit.WithStoredQuota())
	if err == nil {
		made.metrics.Watch(made.Queue)
	}
	return made, err
}

// find returns the queue of a name. One that was not given is looked for in
// Redis.
func (q *queues) find(ctx context.Context, name string) (*queue, error) {
	if known := q.peek(name); known != nil {
		return known, nil
	}
	select {
	case q.unknown <- struct{}{}:
		defer func() { <-q.unknown }()
	case <-ctx.Done():
		return nil, ctx.Err()
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
	return q.keep(made)
}

// peek returns nil if the queue is not known.
func (q *queues) peek(name string) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.known[name]
}

// keep returns the queue of that name that came first.
func (q *queues) keep(made *queue) (*queue, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.known[made.name]; known != nil {
		return known, nil
	}
	if q.stored >= mostQueues {
		return nil, fmt.Errorf("%w: %d queues", errTooMany, q.stored)
	}
	q.stored++
	q.add(made)
	return made, nil
}

// add, under mu, makes a queue known.
func (q *queues) add(made *queue) {
	q.known[made.name] = made
	q.registry.MustRegister(made.metrics)
}

// drop forgets a queue whose stored quota is gone.
func (q *queues) drop(gone *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(gone.given.Calls) == 0 && q.known[gone.name] == gone {
		delete(q.known, gone.name)
		q.registry.Unregister(gone.metrics)
		q.stored--
	}
}

// all are the queues that are known, by name.
func (q *queues) all() []*queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*queue, 0, len(q.known))
	for _, known := range q.known {
		all = append(all, known)
	}
	slices.SortFunc(all, func(a, b *queue) int { return strings.Compare(a.name, b.name) })
	return all
}

// pictureOf is a queue as it stood at most 50 ms ago, so that those who look do
// not hold up those who wait.
func (s *Server) pictureOf(ctx context.Context, q *queue) (picture.Queue, error) {
	return q.picture.get(50*time.Millisecond, func() (picture.Queue, error) {
		state, err := s.inspect(context.WithoutCancel(ctx), q.name)
		if err != nil {
			return picture.Queue{}, err
		}
		return picture.Of(q.name, state, q.given.Calls, q.given.Units, s.Guard)
	})
}
