package coalesce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// Request is one call: what it asks for, where it stands in line, and what it
// was answered. It is made once, and asks again with the same Request.
//
// The server does not touch a request again that it has told. So its caller may
// change the request, and ask again. A request that is gone is never used again,
// because the server may still hold it.
type Request struct {
	Ctx      context.Context
	N        int
	Amounts  engine.Amounts
	Cost     int           // in the share of its flow, 0 for N
	Line     *Line         // of its flow; nil for the common line
	MaxWait  time.Duration // the longest wait it accepts; 0 for a turn now or none
	Deadline time.Time     // the latest turn it accepts, zero for any
	Came     time.Time     // when its caller came; zero if it accepts any wait
	TooLarge bool          // it never fits, as far as is known

	Call  uint64 // numbers the calls in their order; the Asker sets it
	Reply Reply  // the newest answer, once Ask has returned nil

	line    *Line           // Line, or the common one
	ctx     context.Context // of the question: Ctx, or what bounds the wait in line
	counts  bool            // MaxWait counts from Came, and not from when the question goes
	state   atomic.Int32
	told    chan struct{} // holds one, so that the server never waits for a caller
	failure error         // why its question failed, once it is told
	asks    *engine.Flow  // what the question says of its flow
	lost    atomic.Bool   // see Lost
}

// Rest is the longest wait that the request accepts as of a moment, without its
// deadline.
func (r *Request) Rest(now time.Time) time.Duration {
	if !r.counts || r.Came.IsZero() {
		return r.MaxWait
	}
	return max(0, r.MaxWait-now.Sub(r.Came))
}

// Lost reports whether an answer to it was lost. What that granted, nobody knows.
func (r *Request) Lost() bool { return r.lost.Load() }

// inShare is how many permits it counts for in the share of its flow.
func (r *Request) inShare() int { return cmp.Or(r.Cost, r.N) }

// mayGo is how many permits of it may go, as far as is known.
func (r *Request) mayGo() int {
	if r.TooLarge {
		return 0
	}
	return r.N
}

// asOf is the request as it goes to the engine at a moment.
func (r *Request) asOf(now time.Time) engine.Request {
	maxWait := r.Rest(now)
	if !r.Deadline.IsZero() {
		maxWait = max(0, min(maxWait, r.Deadline.Sub(now)))
	}
	return engine.Request{N: r.N, Amounts: r.Amounts, Cost: r.Cost, MaxWait: maxWait, Flow: r.asks}
}

// Reply is the answer to one request.
type Reply struct {
	*engine.Answer
	Asked   time.Time // when the question went, on this process's clock
	Arrived time.Time // when the answer came
}

// Slot is when the turn is due, or when asking again makes sense.
func (r *Reply) Slot() time.Time { return r.Arrived.Add(r.Wait) }

// Took is how long the answer took.
func (r *Reply) Took() time.Duration { return r.Arrived.Sub(r.Asked) }

// result is the error of a request that was told.
func (r *Request) result() error {
	if r.failure != nil {
		return r.failure
	}
	return r.Reply.Err
}

const (
	outside int32 = iota // before it lines up, and once its caller has its answer
	lined
	asked
	answered
	gone
)

// lineUp puts a request in line, as the newest call. If its call is not the
// first, the time that it has stood in line counts.
func (a *Asker) lineUp(ctx context.Context, r *Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	line := cmp.Or(r.Line, &a.common)
	if a.away != nil && r.MaxWait <= 0 {
		return a.notAsked()
	}
	if a.Breaker != nil && line.fits(line.wanted, r.inShare()) {
		if err := a.Breaker.Try(); err != nil {
			return err
		}
	}
	r.counts = r.Call > 0 || a.mayLineUp(r)
	a.calls++
	r.Call = a.calls
	a.enter(ctx, r)
	line.waiting = append(line.waiting, r)
	line.count(r)
	a.makeReady(line)
	return nil
}

// mayLineUp reports whether a request may stand in line for long.
func (a *Asker) mayLineUp(r *Request) bool { return r.Line != nil || a.Away != nil }

// enter, under mu, puts a request in state lined.
func (a *Asker) enter(ctx context.Context, r *Request) {
	if r.told, _ = a.signals.Get().(chan struct{}); r.told == nil {
		r.told = make(chan struct{}, 1)
	}
	r.ctx, r.line, r.asks = ctx, cmp.Or(r.Line, &a.common), nil
	r.state.Store(lined)
}

// leaves makes a caller gone that stands in line, or if it may, one that was
// asked for. It reports whether it did. Otherwise the caller is told.
func (a *Asker) leaves(r *Request, evenAsked bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.state.CompareAndSwap(lined, gone) {
		r.line.remove(r)
		a.makeReady(r.line)
		return true
	}
	return evenAsked && r.state.CompareAndSwap(asked, gone)
}

// leave ends the wait of a caller whose ctx has ended, which may not be the ctx
// that the caller was lined up with. A caller in line goes at once. A caller that
// was asked for stays for [ReturnBound], for its answer and for the return of what
// that grants. If the question fails, the error matches what it failed by.
func (a *Asker) leave(ctx context.Context, r *Request) error {
	if a.leaves(r, false) {
		return a.becauseAway(unsent(ctx), false)
	}
	until := time.Now().Add(ReturnBound)
	switch {
	case !a.hears(r, until):
		err := ctxerr.Ended(ctx, "left before the answer came; what it grants is given back if it comes")
		return a.becauseAway(err, true)
	case r.failure == nil && r.Reply.Granted:
		a.abandon(ctx, r.Reply.Grant, until)
		a.Passed(r.line, r.inShare())
		return ctxerr.Ended(ctx, "left as the answer came, what it granted is given back")
	}
	err := r.result()
	switch {
	case err == nil:
		return ctxerr.Ended(ctx, "left as the answer came, which granted nothing")
	case errors.Is(err, ctx.Err()):
		return err // its question was not sent
	}
	return fmt.Errorf("%w: %w", ctxerr.Ended(ctx, "left as its question failed"), err)
}

// hears reports whether a caller that leaves is told until a moment. After that
// the caller is gone, unless the server is telling it just then.
func (a *Asker) hears(r *Request, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-r.told:
		return true
	case <-timer.C:
	}
	if a.leaves(r, true) {
		return false
	}
	<-r.told
	return true
}

// unsent is the error of a caller that left before its question was sent.
func unsent(ctx context.Context) error { return ctxerr.Ended(ctx, "left before its question was sent") }

// staysInLine lines up again a caller that the engine has left for the next
// question, unless the caller leaves. If the question failed, a caller that
// leaves or accepts no wait is told the failure.
func (r *Request) staysInLine(failure error) bool {
	leaves := r.ctx.Err() != nil // there is nothing to wait for
	switch {
	case failure != nil && (leaves || r.MaxWait <= 0):
		r.tell(Reply{}, failure)
		return false
	case leaves:
		r.tell(Reply{}, unsent(r.ctx))
		return false
	}
	if errors.Is(failure, engine.ErrOutcomeUnknown) {
		r.lost.Store(true)
	}
	return r.state.CompareAndSwap(asked, lined)
}

// tellInLine, under mu, tells a caller that stands in line.
func (r *Request) tellInLine(reply Reply, failure error) {
	r.line.uncount(r)
	r.state.Store(asked)
	r.tell(reply, failure)
}

// tell hands a caller its answer, or why its question failed. It reports whether
// the caller is there to take it.
func (r *Request) tell(reply Reply, failure error) bool {
	if !r.state.CompareAndSwap(asked, answered) {
		return false
	}
	r.Reply, r.failure = reply, failure
	r.told <- struct{}{}
	return true
}
