package batch

import (
	"context"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/bound"
)

// question is one call of the engine, for callers or for givers. Its server
// uses it again for the next.
//
// Invariant: it belongs to the goroutine that sends it from start to finish,
// and to its timer if that fires in between. Of the two, timer.Stop decides, so
// only one of them ever touches those whom the question was sent for.
type question struct {
	batcher  *Batcher
	callers  []*caller
	requests []engine.Request
	givers   []*giver
	flows    []*Flow   // that it is for, if it is for flows
	of       []*Flow   // the flow of each of the callers
	last     uint64    // the number of the last that had lined up
	most     int       // callers that it may hold, see mostAsked
	slice    time.Time // until when returns go before callers, see returnsGo
	quick    time.Time // when its answer came, zero if that was not quick

	ctx   *boundedCtx
	timer *time.Timer
}

// start makes ctx and arms the timer. Now is when the question begins.
func (q *question) start(ctx context.Context, now time.Time) {
	q.ctx = &boundedCtx{Context: context.WithoutCancel(ctx), deadline: now.Add(bound.Answer)}
	if q.timer == nil {
		q.timer = time.AfterFunc(bound.Answer, q.overdue)
		return
	}
	q.timer.Reset(bound.Answer)
}

// quickly is when an answer came, zero if it was not quick.
func quickly(asked, arrived time.Time) time.Time {
	if arrived.Sub(asked) > warm {
		return time.Time{}
	}
	return arrived
}

// finish reports whether the answer came in time. If it did not, everybody was
// told so, another goroutine serves, and q must not be used again.
func (q *question) finish() (inTime bool) {
	inTime = q.timer.Stop()
	q.ctx.end(context.Canceled)
	return inTime
}

// overdue runs on the timer's goroutine, which serves from then on.
func (q *question) overdue() {
	q.ctx.end(context.DeadlineExceeded)
	q.fails(bound.ErrOverdue)
	q.batcher.serve()
}

// fails is what becomes of a question that failed.
func (q *question) fails(err error) {
	if !q.keeps(err) {
		q.refuse(err)
	}
}

// refuse tells all whom the question was sent for that it failed.
func (q *question) refuse(err error) {
	failed := outcome{result: &result{err: err}}
	for _, c := range q.callers {
		c.tell(failed)
	}
	for i, f := range q.of {
		q.batcher.Passed(f, q.requests[i].N)
	}
	for _, g := range q.givers {
		g.tell(err)
	}
}

// boundedCtx is the ctx of a question. It has the values of the caller that the
// question was sent for first, and nobody's cancellation ends it. It is a
// context.WithTimeout without a timer of its own: the question's ends it.
type boundedCtx struct {
	context.Context
	deadline time.Time

	mu   sync.Mutex
	done chan struct{} // made when somebody looks
	err  error
}

func (c *boundedCtx) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *boundedCtx) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

func (c *boundedCtx) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end ends ctx, once.
func (c *boundedCtx) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}
