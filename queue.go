package fairlimit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/clock"
)

const (
	// mostTogether bounds how many callers, or returns, one question holds. The engine may answer fewer to spare the server.
	mostTogether = 1024

	// answerBound is how long a question may take altogether, whoever waits for it. One lost answer holds up its limiter for that long at most,
	// or for the client's ReadTimeout, whichever is shorter.
	answerBound = 5 * time.Second

	// returnBound is how long a caller that has left stays for the word that its permits are back, so that a program that ends right after Wait
	// has given them back. They are sent whether it stays or not.
	returnBound = 25 * time.Millisecond
)

// errOverdue does not match context.DeadlineExceeded: it was no caller's deadline.
var errOverdue = fmt.Errorf("%w: no answer within %v", ErrOutcomeUnknown, answerBound)

// queue lines callers up in front of an engine. While one question is under way, callers gather; when its answer is there, all that have
// gathered go out in the next one, in the order in which they called.
//
// Invariant, under mu: busy is true exactly while one goroutine serves, and whoever adds to waiting or returns while busy is false starts it. It stops
// serving only under mu with both empty, or by handing over to another, so nobody is left behind and no goroutine is left over.
type queue struct {
	engine engine.Engine

	mu      sync.Mutex
	busy    bool
	waiting []*caller
	returns []*giver
}

// turn is a grant on this process's clock.
type turn struct {
	slot  time.Time
	grant engine.Grant
}

// caller is one question of one caller. Its state decides who owns the answer: the first of serve (answered) and the caller's ctx (gone) to move
// it away from pending. Answered: the caller receives exactly one reply. Gone: serve gives back what was granted.
type caller struct {
	ctx      context.Context
	n        int
	patience time.Duration // the longest wait it takes, besides ctx's deadline
	state    atomic.Int32
	reply    chan reply // holds one, so that serve never waits for a caller
}

const (
	pending int32 = iota
	answered
	gone
)

// reply is an answer, when it arrived, and the longest wait that was asked for.
type reply struct {
	engine.Answer
	arrived time.Time
	longest time.Duration
	err     error
}

func (r reply) turn() turn { return turn{slot: r.arrived.Add(r.Wait), grant: r.Grant} }

// giver waits for permits to be given back.
type giver struct {
	ctx   context.Context
	grant engine.Grant
	done  chan error // holds one
}

// wait is the one wait loop: granted, it sleeps until the turn; refused for now, it sleeps and asks again.
func (q *queue) wait(ctx context.Context, n int, patience time.Duration) error {
	start := time.Now()
	for {
		r, err := q.ask(ctx, n, remaining(patience, start))
		if err != nil {
			return err
		}
		if clock.SleepUntil(ctx, r.turn().slot) != nil {
			if r.Granted {
				q.abandon(ctx, r.Grant)
			}
			return left(ctx, "left before the turn came, what was granted is given back")
		}
		if r.Granted {
			return nil
		}
	}
}

func remaining(patience time.Duration, start time.Time) time.Duration {
	if patience == engine.Forever {
		return patience
	}
	return max(0, patience-time.Since(start))
}

// take is for those who do not wait here: a refusal is final, however short.
func (q *queue) take(ctx context.Context, n int, patience time.Duration) (turn, error) {
	// A deadline bounds this call, not the turn.
	r, err := q.ask(boundless{ctx}, n, patience)
	if err != nil {
		return turn{}, err
	}
	if !r.Granted {
		return turn{}, &RefusedError{Wait: r.Wait}
	}
	return r.turn(), nil
}

// boundless is a ctx that ends as its parent does but tells nobody when.
type boundless struct{ context.Context }

func (boundless) Deadline() (time.Time, bool) { return time.Time{}, false }

// ask lines up and returns a grant, or a refusal after which asking again makes sense. Everything else is an error.
func (q *queue) ask(ctx context.Context, n int, patience time.Duration) (reply, error) {
	c := &caller{ctx: ctx, n: n, patience: patience, reply: make(chan reply, 1)}
	q.line(func() { q.waiting = append(q.waiting, c) })
	select {
	case r := <-c.reply:
		return q.judge(c, r)
	case <-ctx.Done():
		if c.state.CompareAndSwap(pending, gone) {
			return reply{}, left(ctx, "left before the answer came, what it grants is given back")
		}
		if r := <-c.reply; r.Granted {
			q.abandon(ctx, r.Grant)
		}
		return reply{}, left(ctx, "left as the answer came, what it granted was given back")
	}
}

// judge holds a reply against what its caller accepts.
func (q *queue) judge(c *caller, r reply) (reply, error) {
	if r.err != nil {
		return r, r.err
	}
	deadline, hasOne := c.ctx.Deadline()
	late := hasOne && r.turn().slot.After(deadline) // where the answer took too long, a grant can be, too
	switch {
	case r.Granted && late:
		q.abandon(c.ctx, r.Grant)
		return r, &RefusedError{Wait: r.Wait}
	case !r.Granted && (late || r.Wait > r.longest || q.engine.Queues()):
		return r, &RefusedError{Wait: r.Wait}
	}
	return r, nil
}

// abandon gives permits back on behalf of a caller that is leaving.
func (q *queue) abandon(ctx context.Context, grant engine.Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnBound)
	defer cancel()
	grant.Unused = true
	_ = q.giveBack(ctx, grant) // the caller has its own reason to leave; permits that cannot be returned pass unused
}

// giveBack lines up a return and waits until it is done or ctx ends.
func (q *queue) giveBack(ctx context.Context, grant engine.Grant) error {
	g := &giver{ctx: ctx, grant: grant, done: make(chan error, 1)}
	q.line(func() { q.returns = append(q.returns, g) })
	select {
	case err := <-g.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, left(ctx, "the return is under way"))
	}
}

func (q *queue) line(add func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	add()
	if !q.busy {
		q.busy = true
		go q.serve()
	}
}

// serve sends what has gathered until nothing is left, or until an answer is overdue and another goroutine has taken over. Returns go first: they
// make room.
func (q *queue) serve() {
	for mine := true; mine; {
		returns, callers := q.gathered()
		switch {
		case len(returns) > 0:
			mine = q.sendReturns(returns)
		case len(callers) > 0:
			mine = q.sendCallers(callers)
		default:
			return
		}
	}
}

// gathered picks the next to go. Returns leave the line at once, callers when they are answered.
func (q *queue) gathered() ([]*giver, []*caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := min(len(q.returns), mostTogether); n > 0 {
		returns := q.returns[:n:n]
		q.returns = q.returns[n:]
		return returns, nil
	}
	q.returns = nil
	for len(q.waiting) > 0 && q.waiting[0].state.Load() != pending {
		q.waiting = q.waiting[1:]
	}
	if len(q.waiting) == 0 {
		q.waiting, q.busy = nil, false
		return nil, nil
	}
	return nil, q.waiting[:min(len(q.waiting), mostTogether)]
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

func (q *queue) sendCallers(callers []*caller) (mine bool) {
	asked, requests := questions(callers)
	if len(asked) == 0 {
		return true
	}
	refuse := func(err error) {
		for _, c := range asked {
			q.deliver(c, reply{err: err})
		}
	}
	var answers []engine.Answer
	var err error
	mine = q.question(asked[0].ctx, func(ctx context.Context) { answers, err = q.engine.Take(ctx, requests) }, refuse)
	arrived := time.Now()
	if err == nil && (len(answers) < 1 || len(answers) > len(requests)) {
		err = fmt.Errorf("%w: the engine gave %d answers to %d requests", ErrOutcomeUnknown, len(answers), len(requests))
	}
	switch {
	case err == nil: // those who were told that no answer came are gone by now, and their permits go back
		for i, a := range answers {
			q.deliver(asked[i], reply{Answer: a, arrived: arrived, longest: requests[i].MaxWait, err: a.Err})
		}
	case mine:
		refuse(err)
	}
	return mine
}

// question asks under a ctx that keeps the values of the caller that it is sent for first, and that nobody's cancellation ends. It reports whether
// the answer came within answerBound. If not, overdue has been called in time, even if the client goes on waiting for longer, and another
// goroutine serves: of the two, stop decides, and never for both.
func (q *queue) question(ctx context.Context, ask func(context.Context), overdue func(error)) (mine bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerBound)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		overdue(errOverdue)
		q.serve()
	})
	ask(ctx)
	return stop()
}

// questions works out, now that they go, how long each caller that is still there may wait.
func questions(callers []*caller) ([]*caller, []engine.Request) {
	now := time.Now()
	asked := make([]*caller, 0, len(callers))
	requests := make([]engine.Request, 0, len(callers))
	for _, c := range callers {
		if c.state.Load() != pending {
			continue
		}
		longest := c.patience
		if deadline, hasOne := c.ctx.Deadline(); hasOne {
			longest = max(0, min(longest, deadline.Sub(now)))
		}
		asked = append(asked, c)
		requests = append(requests, engine.Request{N: c.n, MaxWait: longest})
	}
	return asked, requests
}

// deliver hands a caller its reply, or gives back what was granted to one that has gone.
func (q *queue) deliver(c *caller, r reply) {
	if c.state.CompareAndSwap(pending, answered) {
		c.reply <- r
		return
	}
	if r.Granted {
		r.Grant.Unused = true
		q.line(func() { q.returns = append(q.returns, &giver{ctx: c.ctx, grant: r.Grant, done: make(chan error, 1)}) })
	}
}
