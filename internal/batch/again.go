package batch

import "context"

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

// Await is [Batcher.Ask] for a caller who stands in line already.
func (b *Batcher) Await(ctx context.Context, p Place) (Reply, error) {
	return b.answerOf(ctx, p.caller)
}
