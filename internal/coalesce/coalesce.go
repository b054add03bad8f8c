// Package coalesce combines callers, so that many of them cost one question.
//
// While one question to the engine is under way, further callers line up. When
// its answer is there, all that have lined up go out in the next question, in
// the order in which they called. A caller that finds nobody there is asked for
// at once. There is no timer that waits for company.
//
// # Who serves
//
// One goroutine at a time sends questions, the server. The first caller of an
// idle [Asker] starts it, and it ends when nobody is left in line.
//
// A question without an answer after five seconds is overdue: its callers are
// told so, another goroutine serves, and what it grants after all goes back. With
// [Asker.Away] the callers line up again instead.
//
// # The states of a caller
//
//	outside ──▶ lined ──▶ asked ──▶ answered    the server tells it, once
//	              │  ◀──    │
//	              ▼         ▼
//	                   gone                     the caller has left
//
// The server moves a caller to asked when its question goes, back to lined if
// the engine leaves it for the next question or is away, and to answered before
// it tells the caller. A caller that is told in line goes straight through. The
// caller moves itself to gone. A caller is lined only under mu. Every move out of
// asked is one atomic operation, so exactly one side owns what was granted: an
// answered caller reads its answer, and for one that is gone the server gives
// back.
package coalesce

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/breaker"
)

const (
	// mostAsked bounds how many callers one question holds. The engine may
	// answer fewer to spare the server. Then the next question holds twice as
	// many as it answered, at least leastAsked: so callers whose requests all
	// differ are not sent over and over.
	mostAsked  = 1024
	leastAsked = 64

	// ReturnBound is how long a caller that leaves stays for its answer and for
	// the return of its permits, both together. So a program that ends right
	// after Wait has given them back. They go back whether the caller stays or
	// not.
	ReturnBound = 25 * time.Millisecond
)

// Asker lines callers up in front of an engine. Its exported fields are set
// once, before the first call. An idle one holds no goroutine, no timer and no
// caller.
//
// Invariant, under mu: busy is true exactly while one goroutine serves. Whoever
// adds to ready or returns while busy is false starts a server. The server
// stops only under mu with both empty, or hands over to another goroutine. So
// nobody is left behind, and no goroutine is left over.
//
// In every line callers stand in the order of their calls. Whoever lines up
// again stands where it would stand if it had had no turn.
type Asker struct {
	Engine engine.Engine

	// Breaker, if it is not nil, turns callers away and calls them away.
	// Without one they leave when their ctx ends, and only then.
	Breaker *breaker.Breaker

	// Away, if it is not nil, reports whether an error says that the engine is
	// away. Then callers that accept a wait stay in line, and the server asks
	// again once Probe does not fail like that. Probe asks the engine for
	// something that changes nothing.
	Away  func(error) bool
	Probe func(context.Context) error

	// Answered, if it is not nil, is told what each answer took, and whether it
	// granted anything, unless it waited for replicas in vain.
	Answered func(took time.Duration, granted bool)

	mu      sync.Mutex
	common  Line             // of callers without a flow
	ready   []*Line          // whose first caller may be asked for
	held    map[string]*Line // those that are held back, by their IDs
	returns []*giver
	signals sync.Pool // for requests to be told by
	busy    bool
	calls   uint64 // that have lined up

	away  error         // why the engine is away, nil since a question was answered
	pause time.Duration // the last one for that, of the server alone
}

// ErrMaxWait ends the wait in a line when MaxWait is over.
var ErrMaxWait = errors.New("fairlimit: no turn within WithMaxWait")

// Ask lines up a request, unless it stands in line already, and returns once its
// Reply is there. If Ctx ends first, Ask leaves the line, and what the caller was
// granted meanwhile goes back: within [ReturnBound], if the engine answers within
// it. Answer.Err of the reply is returned as the error.
//
// A request that may stand in line for long stays no longer than its MaxWait
// allows. Then the error matches [ErrMaxWait].
func (a *Asker) Ask(r *Request) error {
	ctx := r.Ctx
	if a.mayLineUp(r) && r.MaxWait > 0 && !r.Came.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.Came.Add(r.MaxWait), ErrMaxWait)
		defer cancel()
	}
	if r.state.Load() == outside {
		if err := a.lineUp(ctx, r); err != nil {
			return err
		}
	}
	return a.await(ctx, r)
}

// await returns once the caller of a request in line is told, or leaves.
func (a *Asker) await(ctx context.Context, r *Request) error {
	var opened <-chan struct{}
	if a.Breaker != nil {
		opened = a.Breaker.Opened()
	}
	select {
	case <-r.told:
	case <-ctx.Done():
		return a.leave(ctx, r)
	case <-opened:
		if a.leaves(r, true) {
			return a.Breaker.Cause()
		}
		<-r.told
	}
	a.signals.Put(r.told)
	r.state.Store(outside)
	return r.result()
}

// LineUpAgain lines up requests whose turns are void, in front of all who called
// later. Each of them has to call [Asker.Ask]. A caller of a flow held its turn
// until now.
func (a *Asker) LineUpAgain(all []*Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range all {
		a.enter(r.Ctx, r)
		r.counts = true
		r.line.ahead -= r.inShare()
	}
	for l := range merge(all) {
		a.reopen(l)
	}
}
