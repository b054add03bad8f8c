package batch

import (
	"context"
	"errors"
	"slices"

	"github.com/fairlimit/fairlimit/engine"
)

// Place is a caller's place in line, which somebody else has taken for it.
type Place struct{ caller *caller }

// Again is a request of a caller whose earlier turn is void. If it is of a flow,
// it held that turn until now.
type Again struct {
	Ctx     context.Context
	Request Request
	At      int64 // the slot of that turn
}

// LineUpAgain lines up callers, given by the slots of their turns, in front of
// all who have had none; among those who have had one by their slots, and in
// front of those of the same. Each of them has to call [Batcher.Await] with its
// place.
func (b *Batcher) LineUpAgain(all []Again) []Place {
	places, callers := make([]Place, len(all)), make([]*caller, 0, len(all))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, again := range all {
		c := b.newCaller()
		c.ctx, c.request, c.again, c.at = again.Ctx, again.Request, true, again.At
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

// merge puts callers who line up again in front of a line, and returns it anew.
func merge(callers, waiting []*caller) []*caller {
	all := make([]*caller, 0, len(callers)+len(waiting))
	for _, c := range callers {
		for len(waiting) > 0 && waiting[0].again && waiting[0].at < c.at {
			all, waiting = append(all, waiting[0]), waiting[1:]
		}
		all = append(all, c)
	}
	return append(all, waiting...)
}

// putBack returns the line in which callers stand again, in their order, as if
// no question had been sent for them: in front of those who came later, but
// behind those who have lined up again meanwhile, unless their own turn that is
// void was earlier.
func putBack(left, waiting []*caller) []*caller {
	had, first := countAgain(left), countAgain(waiting)
	if had == 0 {
		return slices.Insert(waiting, first, left...)
	}
	return slices.Concat(merge(waiting[:first], left[:had]), left[had:], waiting[first:])
}

// countAgain is how many line up again: the first of a line do.
func countAgain(line []*caller) int {
	first := slices.IndexFunc(line, func(c *caller) bool { return !c.again })
	if first < 0 {
		return len(line)
	}
	return first
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
