package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// caller is one request in line. The package comment has its states.
//
// The server does not touch a caller again that it has told. So a caller that was
// told is free for another request. A caller that is gone is never used again,
// because the server may still hold it.
type caller struct {
	ctx     context.Context
	request Request
	call    uint64 // its number, of all that line up for the first time
	state   atomic.Int32
	told    chan struct{} // holds one, so that the server never waits for a caller
	outcome outcome       // once it is told
	asks    *engine.Flow  // what the question says of its flow
	lost    bool          // an earlier question for it has an unknown outcome
}

// outcome is what a caller is told: the answer to its request, or why its
// question failed.
type outcome struct {
	reply  Reply
	failed error
}

func (o outcome) granted() bool { return o.failed == nil && o.reply.Granted }

func (o outcome) result() (Reply, error) {
	if o.failed != nil {
		return Reply{}, o.failed
	}
	return o.reply, o.reply.Err
}

const (
	lined int32 = iota
	asked
	answered
	gone
)

// lineUp puts a request in line.
func (a *Asker) lineUp(ctx context.Context, r Request) (*caller, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Line == nil {
		r.Line = &a.common
	}
	if a.away != nil && r.MaxWait <= 0 {
		return nil, a.notAsked()
	}
	if a.Breaker != nil && r.Line.fits(r.Line.wanted, r.inShare()) {
		if err := a.Breaker.Try(); err != nil {
			return nil, err
		}
	}
	c := a.newCaller(ctx, r)
	r.Line.waiting = append(r.Line.waiting, c)
	r.Line.count(c)
	a.makeReady(r.Line)
	return c, nil
}

// newCaller, under mu, returns a caller in state lined.
func (a *Asker) newCaller(ctx context.Context, r Request) *caller {
	a.calls++
	if r.Line == nil {
		r.Line = &a.common
	}
	c, _ := a.spare.Get().(*caller)
	if c == nil {
		c = &caller{told: make(chan struct{}, 1)}
	}
	c.state.Store(lined)
	c.ctx, c.request, c.call, c.asks, c.lost = ctx, r, a.calls, nil, false
	return c
}

// leaves makes the caller gone, unless it is answered: then it is told.
func (a *Asker) leaves(c *caller) bool {
	before := c.state.Swap(gone)
	if before == lined {
		a.left(c)
	}
	return before != answered
}

// leave ends the wait of a caller whose ctx has ended: that of the call that
// waits, which may not be the ctx that the caller was lined up with. A caller in
// line goes at once. A caller that was asked for stays for [ReturnBound], for its
// answer and for the return of what that grants. If the question fails, the error
// matches what it failed by.
func (a *Asker) leave(ctx context.Context, c *caller) error {
	if c.state.CompareAndSwap(lined, gone) {
		a.left(c)
		return a.becauseAway(unsent(ctx, c.lost))
	}
	until := time.Now().Add(ReturnBound)
	o, told := a.lastOutcome(c, until)
	switch {
	case !told:
		return a.becauseAway(
			ctxerr.Ended(ctx, "left before the answer came; what it grants is given back if it comes"))
	case o.granted():
		a.abandon(ctx, o.reply.Grant, until)
		a.Passed(c.request.Line, c.request.inShare())
		return ctxerr.Ended(ctx, "left as the answer came, what it granted is given back")
	}
	_, err := o.result()
	switch err.(type) {
	case nil:
		return ctxerr.Ended(ctx, "left as the answer came, which granted nothing")
	case errUnsent:
		return err
	}
	return fmt.Errorf("%w: %w", ctxerr.Ended(ctx, "left as its question failed"), err)
}

// lastOutcome is what a caller that leaves is told until a moment. After that the
// caller is gone, unless the server is telling it just then.
func (a *Asker) lastOutcome(c *caller, until time.Time) (o outcome, told bool) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-c.told:
		return c.outcome, true
	case <-timer.C:
	}
	if a.leaves(c) {
		return outcome{}, false
	}
	<-c.told
	return c.outcome, true
}

// errUnsent is the error of a caller that left before its question was sent.
// Lost says that an earlier question was sent.
type errUnsent struct {
	error
	lost bool
}

func (e errUnsent) Unwrap() error { return e.error }

func (e errUnsent) Is(target error) bool { return e.lost && target == engine.ErrOutcomeUnknown }

func unsent(ctx context.Context, lost bool) error {
	what := "left before its question was sent"
	if lost {
		what += " again; the first one may have consumed permits"
	}
	return errUnsent{ctxerr.Ended(ctx, what), lost}
}

// staysInLine lines up again a caller that the engine has left for the next
// question, unless the caller leaves. If the question failed, a caller that
// leaves or accepts no wait is told the failure.
func (c *caller) staysInLine(failure error) bool {
	leaves := c.ctx.Err() != nil // there is nothing to wait for
	switch {
	case failure != nil && (leaves || c.request.MaxWait <= 0):
		c.tell(outcome{failed: failure})
		return false
	case leaves:
		c.tell(outcome{failed: unsent(c.ctx, c.lost)})
		return false
	}
	c.lost = c.lost || errors.Is(failure, engine.ErrOutcomeUnknown)
	return c.state.CompareAndSwap(asked, lined)
}

// tellInLine, under mu, hands an outcome to a caller that stands in line, and
// reports whether the caller was still there.
func (c *caller) tellInLine(o outcome) bool {
	if !c.state.CompareAndSwap(lined, asked) {
		return false
	}
	c.request.Line.uncount(c)
	c.tell(o)
	return true
}

// tell hands a caller its outcome. It reports whether the caller is there to
// take it.
func (c *caller) tell(o outcome) bool {
	if !c.state.CompareAndSwap(asked, answered) {
		return false
	}
	c.outcome = o
	c.told <- struct{}{}
	return true
}
