package batch

import (
	"context"
	"errors"

	"github.com/fairlimit/fairlimit/engine"
)

// Place is a caller's place in line, which somebody else has taken for it.
type Place struct{ caller *caller }

// Again is a request of a caller whose earlier turn is void. If it is of a flow,
// it held that turn until now.
type Again struct {
	Ctx     context.Context
	Request Request
	Call    uint64 // as the reply said that granted the turn
}

// LineUpAgain lines up callers, given in the order of their calls, in front of
// all who called later. Each of them has to call [Batcher.Await] with its place.
func (b *Batcher) LineUpAgain(all []Again) []Place {
	places, callers := make([]Place, len(all)), make([]*caller, 0, len(all))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, again := range all {
		c := b.newCaller()
		c.ctx, c.request, c.call = again.Ctx, again.Request, again.Call
		places[i] = Place{c}
		if c.request.Flow == nil {
			callers = append(callers, c)
		}
	}
	b.lineUpAgainInFlows(places)
	if len(callers) > 0 {
		b.waiting = merge(callers, b.waiting)
		b.startServer()
	}
	return places
}

// merge returns two lines as one, anew.
func merge(callers, waiting []*caller) []*caller {
	all := make([]*caller, 0, len(callers)+len(waiting))
	for _, c := range callers {
		for len(waiting) > 0 && waiting[0].call < c.call {
			all, waiting = append(all, waiting[0]), waiting[1:]
		}
		all = append(all, c)
	}
	return append(all, waiting...)
}

// staysInLine lines up again a caller whom the engine has left for the next
// question, unless it leaves. If the question failed, a caller that leaves or
// accepts no wait is told the failure.
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

// Await is [Batcher.Ask] for a caller who stands in line already.
func (b *Batcher) Await(ctx context.Context, p Place) (Reply, error) {
	return b.answerOf(ctx, p.caller)
}
