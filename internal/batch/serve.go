package batch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/bound"
)

// serve sends what has lined up until nothing is left, or until an answer is
// overdue and another goroutine serves.
func (b *Batcher) serve() {
	q := &question{batcher: b, most: mostAsked}
	for b.outlast(); b.gather(q); b.outlast() {
		if len(q.givers) > 0 {
			if !q.giveBack() {
				return
			}
			continue
		}
		if !q.take() {
			return
		}
	}
}

// gather fills q with those who go next. If nobody is left it stops serving and
// returns false.
func (b *Batcher) gather(q *question) bool {
	clear(q.callers) // it may hold callers that are gone
	q.givers, q.callers, q.flows, q.of = nil, q.callers[:0], nil, nil
	b.mu.Lock()
	defer b.mu.Unlock()
	q.last = b.calls
	switch {
	case b.returnsGo(q):
		q.givers = b.nextReturns()
	case len(b.ready) > 0 && (b.flowsNext || len(b.waiting) == 0):
		b.nextOfFlows(q)
		q.slice = time.Time{}
	case len(b.waiting) > 0:
		b.nextCallers(q)
		q.slice, b.flowsNext = time.Time{}, true
	default:
		b.rest(q.quick)
		return false
	}
	return true
}

// nextCallers, under mu, moves callers from the line to the question.
func (b *Batcher) nextCallers(q *question) {
	if len(b.waiting) <= q.most {
		q.callers, b.waiting = b.waiting, q.callers
		return
	}
	q.callers = append(q.callers, b.waiting[:q.most]...)
	b.waiting = slices.Delete(b.waiting, 0, q.most)
}

// take asks for the callers of q and tells them.
func (q *question) take() (inTime bool) {
	now := time.Now()
	q.prepare(now)
	if len(q.callers) == 0 {
		return true
	}
	first := q.callers[0].ctx
	q.quick = time.Time{}
	q.start(first, now)
	answers, err := q.batcher.Engine.Take(q.ctx, q.requests)
	if !q.finish() {
		q.batcher.nobodys(first, answers)
		return false
	}
	if err == nil {
		err = counted(answers, q.requests)
	}
	if err != nil {
		q.fails(err)
		return true
	}
	q.answered(answers, now)
	return true
}

// prepare works out, now that the question goes, who is still there and how
// long each may wait.
func (q *question) prepare(now time.Time) {
	there := q.callers[:0]
	q.requests = q.requests[:0]
	for _, c := range q.callers {
		if c.request.Flow != nil || c.state.CompareAndSwap(lined, asked) {
			there = append(there, c)
			q.requests = append(q.requests, c.request.at(now))
			q.requests[len(there)-1].Flow = c.asks
		}
	}
	clear(q.callers[len(there):])
	q.callers = there
}

// at is the request as it goes to the engine now.
func (r *Request) at(now time.Time) engine.Request {
	maxWait := r.MaxWait
	if !r.Began.IsZero() && maxWait != engine.Forever {
		maxWait = max(0, maxWait-now.Sub(r.Began))
	}
	if !r.Deadline.IsZero() {
		maxWait = max(0, min(maxWait, r.Deadline.Sub(now)))
	}
	return engine.Request{N: r.N, MaxWait: maxWait}
}

// counted holds an engine to its contract: it answers the first request, and
// none that nobody made.
func counted(answers []engine.Answer, requests []engine.Request) error {
	if len(answers) < 1 || len(answers) > len(requests) {
		return fmt.Errorf("%w: the engine gave %d answers to %d requests",
			engine.ErrOutcomeUnknown, len(answers), len(requests))
	}
	return nil
}

// answered tells the callers their answers.
func (q *question) answered(answers []engine.Answer, asked time.Time) {
	done := &result{asked: asked, arrived: time.Now()}
	q.quick = quickly(asked, done.arrived)
	q.batcher.pause = 0
	q.learnMost(len(answers))
	if len(q.flows) > 0 {
		q.answeredFlows(answers, done)
		return
	}
	q.putBack(answers, done)
	for i := range answers {
		c := q.callers[i]
		if !c.tell(outcome{&answers[i], done}) {
			q.batcher.nobodys(c.ctx, answers[i:i+1]) // c is gone, its ctx stays
		}
	}
	// Those whose turn has come run first and may line up again: one question
	// for all of them instead of two.
	runtime.Gosched()
}

// learnMost sets how many callers the next question may hold, after an answer
// to so many.
func (q *question) learnMost(answered int) {
	q.most = min(2*q.most, mostAsked)
	if answered < len(q.requests) {
		q.most = max(leastAsked, 2*answered)
	}
}

// putBack lines up again those whom the engine has left for the next question,
// and tells those in line who are refused by now.
func (q *question) putBack(answers []engine.Answer, done *result) {
	var there []*caller
	for _, c := range q.callers[len(answers):] {
		if c.staysInLine(done.err) {
			there = append(there, c)
		}
	}
	late := refusalsOf(answers, q.requests)
	b := q.batcher
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = done.err
	b.waiting = late.settle(merge(there, b.waiting), q.last, done)
}

// askAlone is the server of one caller that nothing can call away, in its own
// goroutine. It asks for nobody else, and leaves those who have come meanwhile
// to a goroutine of theirs. It returns when the engine does.
func (b *Batcher) askAlone(ctx context.Context, r Request) (Reply, error) {
	now := time.Now()
	q := &question{batcher: b}
	requests := []engine.Request{r.at(now)}
	q.start(ctx, now)
	answers, err := b.Engine.Take(q.ctx, requests)
	if !q.finish() {
		b.nobodys(ctx, answers)
		return Reply{}, bound.ErrOverdue
	}
	arrived := time.Now()
	if err == nil {
		err = counted(answers, requests)
	}
	if err != nil {
		b.handOn(time.Time{})
		return Reply{}, err
	}
	b.handOn(quickly(now, arrived))
	return Reply{Answer: &answers[0], Asked: now, Arrived: arrived}, answers[0].Err
}

// handOn ends the service of a caller that was alone.
func (b *Batcher) handOn(quick time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting)+len(b.returns)+len(b.ready) > 0 {
		go b.serve()
		return
	}
	b.rest(quick)
}

// rest, under mu, makes b idle, when nobody is left in line. The last answer
// came at quick, or it was not quick.
func (b *Batcher) rest(quick time.Time) {
	b.waiting, b.returns, b.ready, b.spare, b.away, b.pause = nil, nil, nil, nil, nil, 0
	b.busy, b.quick = false, quick
}
