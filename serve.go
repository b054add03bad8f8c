package fairlimit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	// mostTogether bounds how many callers, or returns, one question holds. The engine may answer fewer to spare the server.
	mostTogether = 1024

	// answerBound is how long a question may take altogether, whoever waits for it. One lost answer holds up its limiter for that long at most,
	// or for the client's ReadTimeout, whichever is shorter.
	answerBound = 5 * time.Second
)

// errOverdue does not match context.DeadlineExceeded: it was no caller's deadline.
var errOverdue = fmt.Errorf("%w: no answer within %v", ErrOutcomeUnknown, answerBound)

// batch is whom one question asks for, and what it asks. It belongs to the goroutine that asks; another that takes over makes its own.
type batch struct {
	callers  []*caller
	requests []engine.Request
}

// serve sends what has gathered until nothing is left, or until an answer is overdue and another goroutine has taken over. Returns go first: they
// make room.
func (q *queue) serve() {
	var b batch
	for mine := true; mine; {
		returns, more := q.gather(&b)
		switch {
		case !more:
			return
		case len(returns) > 0:
			mine = q.sendReturns(returns)
		default:
			mine = q.sendCallers(&b)
			runtime.Gosched() // those whose turn has come run first, and may line up again: one question for all of them instead of two
		}
	}
}

// serveAlone is serve by a caller's own goroutine, which spares it two changes of goroutine. It asks for that caller and nobody else, and leaves
// those who have come meanwhile to a goroutine of theirs. It returns when the client does.
func (q *queue) serveAlone(c *caller) {
	if !q.sendCallers(&batch{callers: []*caller{c}}) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	if len(q.waiting)+len(q.returns) > 0 {
		q.callServer()
	}
}

// bounded reports whether the client ends by itself, within answerBound, what Redis leaves unanswered. Where it does not, even a caller that nothing
// else hurries must be able to leave its question to another goroutine.
func bounded(rdb redis.UniversalClient) bool {
	var read, write time.Duration
	switch c := rdb.(type) {
	case *redis.Client:
		read, write = c.Options().ReadTimeout, c.Options().WriteTimeout
	case *redis.ClusterClient:
		read, write = c.Options().ReadTimeout, c.Options().WriteTimeout
	case *redis.Ring:
		read, write = c.Options().ReadTimeout, c.Options().WriteTimeout
	}
	return min(read, write) > 0 && max(read, write) <= answerBound
}

// gather picks the next to go.
func (q *queue) gather(b *batch) (returns []*giver, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := min(len(q.returns), mostTogether); n > 0 {
		returns := q.returns[:n:n]
		q.returns = q.returns[n:]
		return returns, true
	}
	q.returns = nil
	n := min(len(q.waiting), mostTogether)
	if n == 0 {
		q.waiting, q.spare, q.busy = nil, nil, false
		return nil, false
	}
	b.callers = append(b.callers[:0], q.waiting[:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	return nil, true
}

// putBack lines up again, in front, those whom the engine has left for the next question.
func (q *queue) putBack(callers []*caller) {
	if len(callers) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Insert(q.waiting, 0, callers...)
}

func (q *queue) sendReturns(returns []*giver) (mine bool) {
	grants := make([]engine.Grant, len(returns))
	for i, g := range returns {
		grants[i] = g.grant
	}
	answer := func(err error) {
		for _, g := range returns {
			g.done <- err
		}
	}
	var err error
	mine = q.question(returns[0].ctx, func(ctx context.Context) { err = q.engine.GiveBack(ctx, grants) }, answer)
	if mine {
		answer(err)
	}
	return mine
}

func (q *queue) sendCallers(b *batch) (mine bool) {
	b.prepare()
	if len(b.callers) == 0 {
		return true
	}
	refuse := func(err error) {
		for _, c := range b.callers {
			q.deliver(c, reply{err: err})
		}
	}
	var answers []engine.Answer
	var err error
	ctx := b.callers[0].ctx
	mine = q.question(ctx, func(ctx context.Context) { answers, err = q.engine.Take(ctx, b.requests) }, refuse)
	switch {
	case !mine:
		q.nobodys(ctx, answers)
	case err != nil:
		refuse(err)
	case len(answers) < 1 || len(answers) > len(b.requests):
		refuse(fmt.Errorf("%w: the engine gave %d answers to %d requests", ErrOutcomeUnknown, len(answers), len(b.requests)))
	default:
		q.putBack(b.callers[len(answers):])
		q.deliverAll(b, answers)
	}
	return mine
}

// question asks under a ctx that keeps the values of the caller that it is sent for first, and that nobody's cancellation ends. It reports whether
// the answer came within answerBound. If not, overdue has been called in time, even if the client goes on waiting for longer, and another
// goroutine serves: of the two, the timer decides, and never for both. So only one of them ever touches those whom the question was sent for.
func (q *queue) question(ctx context.Context, ask func(context.Context), overdue func(error)) (mine bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerBound)
	defer cancel()
	takeOver := time.AfterFunc(answerBound, func() {
		overdue(errOverdue)
		q.serve()
	})
	ask(ctx)
	return takeOver.Stop()
}

// prepare works out, now that they go, who is still there and how long each may wait.
func (b *batch) prepare() {
	now := time.Now()
	there := b.callers[:0]
	b.requests = b.requests[:0]
	for _, c := range b.callers {
		if c.state.Load() != pending {
			continue
		}
		longest := c.patience
		if deadline, hasOne := c.ctx.Deadline(); hasOne {
			longest = max(0, min(longest, deadline.Sub(now)))
		}
		there = append(there, c)
		b.requests = append(b.requests, engine.Request{N: c.n, MaxWait: longest})
	}
	b.callers = there
}

func (q *queue) deliverAll(b *batch, answers []engine.Answer) {
	arrived := time.Now()
	for i, a := range answers {
		q.deliver(b.callers[i], reply{Answer: a, arrived: arrived, longest: b.requests[i].MaxWait, err: a.Err})
	}
}

// deliver hands a caller its reply, or gives back what was granted to one that has gone.
func (q *queue) deliver(c *caller, r reply) {
	if c.state.CompareAndSwap(pending, answered) {
		c.reply = r
		c.told <- struct{}{}
		return
	}
	q.nobodys(c.ctx, []engine.Answer{r.Answer})
}

// nobodys gives back what was granted to those who are no longer there.
func (q *queue) nobodys(ctx context.Context, answers []engine.Answer) {
	for _, a := range answers {
		if a.Granted {
			a.Grant.Unused = true
			q.lineUpReturn(ctx, a.Grant)
		}
	}
}
