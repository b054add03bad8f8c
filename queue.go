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

// returnBound is how long a caller that has left stays for the word that its permits are back, so that a program that ends right after Wait
// has given them back. They are sent whether it stays or not.
const returnBound = 25 * time.Millisecond

// queue lines callers up in front of an engine. While one question is under way, callers gather; when its answer is there, all that have
// gathered go out in the next one, in the order in which they called. This file is the callers' side, serve.go the other.
//
// Invariant, under mu: busy is true exactly while one goroutine serves, and whoever adds to waiting or returns while busy is false starts it. It stops
// serving only under mu with both empty, or by handing over to another, so nobody is left behind and no goroutine is left over.
type queue struct {
	engine engine.Engine
	prompt bool    // the client ends by itself what Redis leaves unanswered; see bounded
	outage *outage // nil without a fallback

	mu      sync.Mutex
	busy    bool
	waiting []*caller // a caller leaves the line as it is asked for
	returns []*giver
	spare   []*caller // for those who call next; empty while nobody serves, so that an idle limiter holds nothing
}

// turn is a grant on this process's clock.
type turn struct {
	slot  time.Time
	grant engine.Grant
}

// caller is one question of one caller. Its state decides who owns the answer: the first of serve (answered) and the caller's ctx (gone) to move
// it away from pending. Answered: the caller is told, once, and reads its reply. Gone: serve gives back what was granted.
//
// Whoever serves does not touch a caller again once it has told it, so that the caller, having read its reply, is free for another question. One
// that has gone is never used again.
type caller struct {
	ctx      context.Context
	n        int
	patience time.Duration // the longest wait it takes, besides ctx's deadline
	state    atomic.Int32
	reply    reply
	told     chan struct{} // holds one, so that serve never waits for a caller
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

func (r *reply) slot() time.Time { return r.arrived.Add(r.Wait) }

// giver waits for permits to be given back.
type giver struct {
	ctx   context.Context
	grant engine.Grant
	done  chan error // holds one
}

// wait is the one wait loop: granted, it sleeps until the turn; refused for now, it sleeps and asks again.
func (q *queue) wait(ctx context.Context, n int, patience time.Duration) error {
	var start time.Time
	if patience != engine.Forever { // a look at the clock is not free
		start = time.Now()
	}
	for {
		var r reply
		if err := q.ask(ctx, n, remaining(patience, start), &r); err != nil {
			return err
		}
		if r.Wait > 0 && clock.SleepUntil(ctx, r.slot()) != nil {
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
	var r reply
	// A deadline bounds this call, not the turn.
	if err := q.ask(boundless{ctx}, n, patience, &r); err != nil {
		return turn{}, err
	}
	if !r.Granted {
		return turn{}, &RefusedError{Wait: r.Wait}
	}
	return turn{slot: r.slot(), grant: r.Grant}, nil
}

// boundless is a ctx that ends as its parent does but tells nobody when.
type boundless struct{ context.Context }

func (boundless) Deadline() (time.Time, bool) { return time.Time{}, false }

// ask gets a grant, or a refusal after which asking again makes sense. Everything else is an error.
func (q *queue) ask(ctx context.Context, n int, patience time.Duration, r *reply) error {
	c, alone := q.lineUp(ctx, n, patience, ctx.Done() == nil && q.prompt)
	if alone {
		q.serveAlone(c)
	}
	select {
	case <-c.told:
	case <-q.unanswered():
		if c.state.CompareAndSwap(pending, gone) {
			return q.outage.cause()
		}
		<-c.told
	case <-ctx.Done():
		if c.state.CompareAndSwap(pending, gone) {
			return left(ctx, "left before the answer came; what it grants is given back when it comes")
		}
		if <-c.told; c.reply.Granted {
			q.abandon(ctx, c.reply.Grant)
		}
		return left(ctx, "left as the answer came, what it granted was given back")
	}
	*r = c.reply
	q.release(c)
	return q.judge(ctx, r)
}

// unanswered is closed when nobody is to wait for an answer any longer. It is nil, which never is, without a fallback.
func (q *queue) unanswered() <-chan struct{} {
	if q.outage == nil {
		return nil
	}
	return q.outage.leaving()
}

// judge holds a reply against what its caller accepts.
func (q *queue) judge(ctx context.Context, r *reply) error {
	if r.err != nil {
		return r.err
	}
	deadline, hasOne := ctx.Deadline()
	late := hasOne && r.slot().After(deadline) // where the answer took too long, a grant can be, too
	switch {
	case r.Granted && late:
		q.abandon(ctx, r.Grant)
		return &RefusedError{Wait: r.Wait}
	case !r.Granted && (late || r.Wait > r.longest || q.engine.Queues()):
		return &RefusedError{Wait: r.Wait}
	}
	return nil
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
	g := q.lineUpReturn(ctx, grant)
	select {
	case err := <-g.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, left(ctx, "the return is under way"))
	}
}

// lineUp puts a question in line. To one that may be served by its own caller and finds nobody there, it says that it is alone: it stands in no
// line, and its caller has to serve.
func (q *queue) lineUp(ctx context.Context, n int, patience time.Duration, mayServe bool) (c *caller, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c = q.newCaller()
	c.ctx, c.n, c.patience = ctx, n, patience
	if mayServe && !q.busy {
		q.busy = true
		return c, true
	}
	q.waiting = append(q.waiting, c)
	q.callServer()
	return c, false
}

func (q *queue) lineUpReturn(ctx context.Context, grant engine.Grant) *giver {
	g := &giver{ctx: ctx, grant: grant, done: make(chan error, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.returns = append(q.returns, g)
	q.callServer()
	return g
}

// callServer, under mu, starts the goroutine that serves if there is none.
func (q *queue) callServer() {
	if !q.busy {
		q.busy = true
		go q.serve()
	}
}

// newCaller, under mu, returns one that is pending.
func (q *queue) newCaller() *caller {
	last := len(q.spare) - 1
	if last < 0 {
		return &caller{told: make(chan struct{}, 1)}
	}
	c := q.spare[last]
	q.spare = q.spare[:last]
	c.state.Store(pending)
	return c
}

// release keeps a caller that has read its reply for the next question, if there is likely to be one soon.
func (q *queue) release(c *caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy && len(q.spare) < mostTogether {
		c.ctx = nil
		q.spare = append(q.spare, c)
	}
}
