package coalesce

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// mostReturned bounds how many grants one question gives back. An engine may need
// several scripts for one question: the fewer grants it is given, the sooner
// somebody else has a turn.
const mostReturned = 200

// giver is permits that are to be given back.
type giver struct {
	ctx   context.Context
	grant engine.Grant
	done  chan error // holds one, so that nobody has to wait for it
}

// Return gives a grant back and returns when that is done or when ctx ends. A
// ctx that ends does not call it off.
func (a *Asker) Return(ctx context.Context, grant engine.Grant) error {
	select {
	case err := <-a.lineUpReturn(ctx, grant):
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, ctxerr.Ended(ctx, "the return is under way"))
	}
}

// Abandon gives back what a caller that leaves will not use. It returns when
// that is done, or after [ReturnBound].
func (a *Asker) Abandon(ctx context.Context, grant engine.Grant) {
	a.abandon(ctx, grant, time.Now().Add(ReturnBound))
}

// abandon stays until a moment at most. The caller has its own reason to leave,
// so an error is not told: permits that cannot be given back pass unused.
func (a *Asker) abandon(ctx context.Context, grant engine.Grant, until time.Time) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	grant.Unused = true
	_ = a.Return(ctx, grant)
}

// GiveBack gives back what nobody will use, and waits for nothing.
func (a *Asker) GiveBack(ctx context.Context, grant engine.Grant) {
	grant.Unused = true
	a.lineUpReturn(ctx, grant)
}

// nobodys gives back what was granted to callers that are gone.
func (a *Asker) nobodys(ctx context.Context, answers []engine.Answer) {
	for _, answer := range answers {
		if answer.Granted {
			a.GiveBack(ctx, answer.Grant)
		}
	}
}

// lineUpReturn is how everything goes back. It returns what tells the outcome.
func (a *Asker) lineUpReturn(ctx context.Context, grant engine.Grant) <-chan error {
	g := &giver{ctx, grant, make(chan error, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.returns = append(a.returns, g)
	a.startServer()
	return g.done
}

// returnsGo, under mu, reports whether the next question is one of returns. They
// make room, so they go before callers, but the two take turns.
func (a *Asker) returnsGo(q *question) bool {
	return len(a.returns) > 0 && (len(a.ready) == 0 || a.away != nil || len(q.givers) == 0)
}

// nextReturns, under mu, takes returns out of the line.
func (a *Asker) nextReturns() []*giver {
	n := min(len(a.returns), mostReturned)
	next := a.returns[:n:n]
	a.returns = a.returns[n:]
	return next
}

// giveBack sends the returns of q and tells those who wait for them.
func (q *question) giveBack() (inTime bool) {
	grants := make([]engine.Grant, len(q.givers))
	for i, g := range q.givers {
		grants[i] = g.grant
	}
	ctx := q.start(q.givers[0].ctx)
	err, inTime := q.finish(ctx, q.asker.Engine.GiveBack(ctx, grants))
	if !inTime {
		return false
	}
	q.reopen(grants)
	for _, g := range q.givers {
		g.done <- err
	}
	return true
}

// reopen has flows asked for again whose ceilings have room for what may have been
// given back.
func (q *question) reopen(grants []engine.Grant) {
	a := q.asker
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range grants {
		if l := a.held[g.Flow]; l != nil && g.N > 0 {
			a.reopen(l)
		}
	}
}
