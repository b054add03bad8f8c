package fairlimit

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

const heaviest = 1000

// ErrInvalidFlow is returned by [Queue.Flow], and by [New] with [WithFlow], if
// the id is empty or the weight is not 1 to 1000.
var ErrInvalidFlow = errors.New("fairlimit: invalid flow")

// WithFlow makes the limiter part of a flow, which has its share of the quota:
//
//	limiter, err := fairlimit.New(rdb, "tax-office", quota,
//		fairlimit.WithFlow("billing", 1)) // this service, and its weight
//
// A flow is all limiters of the name with the same id, on all machines, such as
// those of one service or one tenant. Give all limiters of the name a flow. The
// id is any text that is not empty, and the weight is 1 to 1000. The newest
// weight counts for all of the flow. Flows that want more than there is get
// permits in proportion to their weights, however many callers each has:
//
//   - A flow with few callers has its share as well, as far as they can use it.
//     So turns are evenly spaced while several flows are active. And no flow
//     holds more turns ahead than the one with the fewest callers can match.
//   - The whole quota is used as long as anybody has callers.
//   - The first turn of a new flow comes after at most the look-ahead: see
//     [WithLookAhead].
//   - A flow that is idle for half a second is forgotten, without credit or debt.
//   - Callers of one limiter keep their order.
//
// A caller beyond the share of its flow waits in this process and has no turn
// yet. It is refused at once only if even the whole quota would come too late for
// it. With [WithMaxQueued] the callers in line count, and [WithMaxWait] counts
// from the call. Allow takes a permit that is due now if nobody of the flow
// waits. Limiters without a flow take as much as they want.
//
// For a bad id or weight the error of New matches [ErrInvalidFlow]. For an engine
// that grants no turns ahead it matches [ErrUnsupported].
func WithFlow(id string, weight int) Option {
	return func(o *options) {
		if err := checkFlow(id, weight); err != nil {
			o.fail(fmt.Errorf("%w: WithFlow: %w", ErrInvalidOption, err))
		}
		o.flow = &flowOption{id, weight}
	}
}

// WithLookAhead sets how many permits all flows of the name together hold ahead,
// at least 1. All limiters of a name should have the same look-ahead.
//
// By default it follows from how many callers the flows have. It is at most twice
// what may go at one moment, or what may go in 100 ms, or 8, whichever is most. It
// is at least what may go while two questions are under way, and in 100 ms. Each
// limiter can always hold one request.
//
// With a longer look-ahead a new flow waits longer, and a flow of few callers gets
// less. If the look-ahead is too short, part of the quota stays unused. [New]
// refuses a look-ahead without [WithFlow]. [NewQueue] takes it for the flows of
// [Queue.Flow].
func WithLookAhead(permits int) Option {
	return func(o *options) {
		if permits < 1 {
			o.refuse("WithLookAhead: %d, want at least 1", permits)
		}
		o.lookAhead = permits
	}
}

type flowOption struct {
	id     string
	weight int
}

func checkFlow(id string, weight int) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: empty id", ErrInvalidFlow)
	case weight < 1 || weight > heaviest:
		return fmt.Errorf("%w: a weight of %d, want 1 to %d", ErrInvalidFlow, weight, heaviest)
	}
	return nil
}

// Flow returns the same queue for callers of a flow: see [WithFlow]. It is for a
// process that has many flows, such as one for each tenant: their questions are
// combined. A flow shares everything with q except its line, its share, and what
// [WithMaxQueued] counts. The same id returns the same flow, and the newest
// weight counts. Flow does no I/O, and what it returns needs no closing.
func (q *Queue) Flow(id string, weight int) (*Queue, error) {
	if err := checkFlow(id, weight); err != nil {
		return nil, q.named(err)
	}
	if q.flows.sharer == nil {
		return nil, q.named(fmt.Errorf("%w: flows", ErrUnsupported))
	}
	return &Queue{&limiter{parts: q.parts, flow: q.parts.flowOf(id, weight)}}, nil
}

// flows are those of one limiter value, as long as somebody has them.
type flows struct {
	sharer    engine.Sharer // the engine, nil if it has no flows
	lookAhead int
	maxQueued int

	mu    sync.Mutex
	known map[string]weak.Pointer[flow]
}

// share makes what flows need, and the flow of the limiter itself.
func (l *limiter) share(o *options, e engine.Engine) error {
	sharer, _ := e.(engine.Sharer)
	if sharer == nil && (o.flow != nil || o.lookAhead > 0) {
		return fmt.Errorf("%w: WithFlow and WithLookAhead need turns granted ahead", ErrUnsupported)
	}
	l.flows.sharer, l.flows.lookAhead, l.flows.maxQueued = sharer, o.lookAhead, o.maxQueued
	if o.flow != nil {
		l.flow = l.parts.flowOf(o.flow.id, o.flow.weight)
	}
	return nil
}

// flowOf returns the flow of an id.
func (p *parts) flowOf(id string, weight int) *flow {
	f := &p.flows
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known[id].Value(); known != nil {
		p.asker.SetWeight(known.line, weight)
		return known
	}
	made := &flow{newBacklog(f.maxQueued), coalesce.NewLine(id, weight, f.lookAhead)}
	if f.known == nil {
		f.known = map[string]weak.Pointer[flow]{}
	}
	f.known[id] = weak.Make(made)
	runtime.AddCleanup(made, f.forget, id)
	return made
}

// forget drops a flow that nobody has any more.
func (f *flows) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[id].Value() == nil {
		delete(f.known, id)
	}
}

// tooFar refuses a request of a flow that could not be in time even if the
// flow had the whole quota.
func (l *limiter) tooFar(request *coalesce.Request) error {
	if l.line == nil || request.MaxWait == engine.Forever && request.Deadline.IsZero() || request.MaxWait == 0 {
		return nil
	}
	wait := l.flows.sharer.AtBest(l.asker.Lined(l.line) + request.N)
	late := !request.Deadline.IsZero() && wait > time.Until(request.Deadline)
	if late || wait > request.MaxWait {
		return &RefusedError{Wait: wait, limit: limit(request)}
	}
	return nil
}

// passed says that permits of the flow, if there is one, are not ahead any more.
func (l *limiter) passed(n int) { l.asker.Passed(l.line, n) }
