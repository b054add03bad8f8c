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
	number  uint64 // in the order in which callers line up
	call    uint64 // its number when it lined up first
	state   atomic.Int32
	told    chan outcome // holds one, so that the server never waits for a caller
	asks    *engine.Flow // what the question says of its flow
	lost    bool         // an earlier question for it has an unknown outcome
}

// outcome is what a caller is told: its answer, nil if the question failed, and
// what became of the question.
type outcome struct {
	answer *engine.Answer
	*result
}

// result is what became of a question.
type result struct {
	asked, arrived time.Time
	err            error // if it failed
}

func (o outcome) granted() bool { return o.answer != nil && o.answer.Granted }

func (o outcome) reply() (Reply, error) {
	if o.answer == nil {
		return Reply{}, o.err
	}
	return Reply{Answer: o.answer, Asked: o.asked, Arrived: o.arrived}, o.answer.Err
}

const (
	lined int32 = iota
	asked
	answered
	gone
)

// lineUp puts a request in line. It reports whether the caller has to serve: it
// found nobody there, cannot leave, and its question is one round trip.
func (a *Asker) lineUp(ctx context.Context, r Request) (c *caller, serves bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Line == nil {
		r.Line = &a.common
	}
	if a.away != nil && r.MaxWait <= 0 {
		return nil, false, a.notAsked()
	}
	if a.Breaker != nil && r.Line.fits(r.Line.lined, r.N) {
		if err := a.Breaker.Try(); err != nil {
			return nil, false, err
		}
	}
	serves = !a.busy && a.Prompt && r.Line.isCommon() && a.Breaker == nil && a.Away == nil &&
		ctx.Done() == nil && time.Since(a.quick) < warm
	a.busy = a.busy || serves
	c = a.newCaller(ctx, r)
	r.Line.waiting = append(r.Line.waiting, c)
	r.Line.count(c)
	a.makeReady(r.Line)
	return c, serves, nil
}

// newCaller, under mu, returns a caller in state lined.
func (a *Asker) newCaller(ctx context.Context, r Request) *caller {
	a.calls++
	if r.Line == nil {
		r.Line = &a.common
	}
	var c *caller
	if last := len(a.spare) - 1; last >= 0 {
		c, a.spare = a.spare[last], a.spare[:last]
	} else {
		c = &caller{told: make(chan outcome, 1)}
	}
	c.state.Store(lined)
	c.ctx, c.request, c.number, c.call, c.asks, c.lost = ctx, r, a.calls, a.calls, nil, false
	return c
}

// release keeps a caller that was told for the next request, while there is a
// server.
func (a *Asker) release(c *caller) {
	c.ctx = nil
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy && len(a.spare) < mostSpare {
		a.spare = append(a.spare, c)
	}
}

// await returns what the caller is told. After an error the caller is gone, or
// it was told and has given back what it was granted.
func (a *Asker) await(ctx context.Context, c *caller) (outcome, error) {
	if a.Breaker != nil {
		return a.awaitBreaker(ctx, c)
	}
	done := ctx.Done()
	if done == nil {
		return <-c.told, nil
	}
	select {
	case o := <-c.told:
		return o, nil
	case <-done:
		return a.leave(ctx, c)
	}
}

func (a *Asker) awaitBreaker(ctx context.Context, c *caller) (outcome, error) {
	select {
	case o := <-c.told:
		return o, nil
	case <-ctx.Done():
		return a.leave(ctx, c)
	case <-a.Breaker.Opened():
		if a.leaves(c) {
			return outcome{}, a.Breaker.Cause()
		}
		return <-c.told, nil
	}
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
// answer and for the return of what that grants. A caller that [Keeps] its grant
// stays for the answer only, and is told it; if none comes, the error matches
// [engine.ErrOutcomeUnknown] as well. If the question fails, the error matches
// what it failed by.
func (a *Asker) leave(ctx context.Context, c *caller) (outcome, error) {
	if c.state.CompareAndSwap(lined, gone) {
		a.left(c)
		return outcome{}, a.becauseAway(unsent(ctx, c.lost))
	}
	until := time.Now().Add(ReturnBound)
	o, told := a.lastOutcome(c, until)
	switch {
	case !told:
		return outcome{}, a.becauseAway(untold(ctx))
	case Keeps(ctx):
		return o, nil
	case o.granted():
		a.abandon(ctx, o.answer.Grant, until)
		a.Passed(c.request.Line, c.request.N)
		return outcome{}, ctxerr.Ended(ctx, "left as the answer came, what it granted is given back")
	}
	return outcome{}, o.nothing(ctx)
}

// lastOutcome is what a caller that leaves is told until a moment. After that the
// caller is gone, unless the server is telling it just then.
func (a *Asker) lastOutcome(c *caller, until time.Time) (o outcome, told bool) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case o = <-c.told:
		return o, true
	case <-timer.C:
	}
	if a.leaves(c) {
		return outcome{}, false
	}
	return <-c.told, true
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

// untold is the error of a caller that left before it was told anything.
func untold(ctx context.Context) error {
	err := ctxerr.Ended(ctx, "left before the answer came; what it grants is given back if it comes")
	if Keeps(ctx) {
		err = fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, err)
	}
	return err
}

// nothing is the error of a caller that left and was granted nothing.
func (o outcome) nothing(ctx context.Context) error {
	_, err := o.reply()
	switch err.(type) {
	case nil:
		return ctxerr.Ended(ctx, "left as the answer came, which granted nothing")
	case errUnsent:
		return err
	}
	return fmt.Errorf("%w: %w", ctxerr.Ended(ctx, "left as its question failed"), err)
}

// Keep makes a cause, for the end of a ctx, that matches an error. A caller
// whose ctx ends by it keeps what it was granted, because somebody else gives
// that back.
func Keep(cause error) error { return keep{cause} }

type keep struct{ error }

func (k keep) Unwrap() error { return k.error }

// Keeps reports whether ctx has ended by a cause of [Keep].
func Keeps(ctx context.Context) bool { return errors.As(context.Cause(ctx), new(keep)) }

// staysInLine lines up again a caller that the engine has left for the next
// question, unless the caller leaves. If the question failed, a caller that
// leaves or accepts no wait is told the failure.
func (c *caller) staysInLine(failure error) bool {
	leaves := c.ctx.Err() != nil // there is nothing to wait for
	switch {
	case failure != nil && (leaves || c.request.MaxWait <= 0):
		c.tell(outcome{result: &result{err: failure}})
		return false
	case leaves:
		c.tell(outcome{result: &result{err: unsent(c.ctx, c.lost)}})
		return false
	}
	c.lost = c.lost || errors.Is(failure, engine.ErrOutcomeUnknown)
	return c.state.CompareAndSwap(asked, lined)
}

// tellInLine, under mu, hands an outcome to a caller that stands in line, and
// reports whether the caller was still there. A caller that was told may serve
// another request.
func (c *caller) tellInLine(o outcome) bool {
	if !c.state.CompareAndSwap(lined, asked) {
		return false
	}
	c.request.Line.lined -= c.request.N
	c.tell(o)
	return true
}

// tell hands a caller its outcome. It reports whether the caller is there to
// take it.
func (c *caller) tell(o outcome) bool {
	if !c.state.CompareAndSwap(asked, answered) {
		return false
	}
	c.told <- o
	return true
}
