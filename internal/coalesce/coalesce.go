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
// A question that has no answer after five seconds is overdue: its callers are
// told so, another goroutine serves, and what the answer grants after all is
// given back. With [Asker.Away] the callers line up again instead.
//
// # The states of a caller
//
//	lined ──▶ asked ──▶ answered    the server tells it, once
//	  │  ◀──    │
//	  ▼         ▼
//	       gone                     the caller has left
//
// The server moves a caller to asked when its question goes, back to lined if
// the engine leaves it for the next question or is away, and to answered before
// it tells the caller. A caller that is told in line goes straight through. The
// caller moves itself to gone. Every move is one atomic operation, so exactly
// one side owns what was granted: an answered caller reads its answer, and for
// one that is gone the server gives back.
package coalesce

import (
	"cmp"
	"context"
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

	mu      sync.Mutex
	common  Line               // of callers without a flow
	ready   []*Line            // whose first caller may be asked for
	held    map[*Line]struct{} // those that something holds back
	returns []*giver
	spare   sync.Pool // of callers that were told
	busy    bool
	calls   uint64 // that have lined up

	away  error         // why the engine is away, nil since a question was answered
	pause time.Duration // the last one for that, of the server alone
}

// Request is what one caller asks for.
type Request struct {
	N        int
	Amounts  engine.Amounts
	Cost     int           // in the share of its flow, 0 for N
	Line     *Line         // of its flow; nil for the common line
	MaxWait  time.Duration // the longest wait it accepts; 0 for a turn now or none
	Deadline time.Time     // the latest turn it accepts, zero for any
	Came     time.Time     // when its caller came; zero if it accepts any wait

	// CountsLine says that MaxWait counts from when the caller came, and not
	// from when its question goes.
	CountsLine bool
}

// Rest is the longest wait that the request accepts as of a moment, without its
// deadline.
func (r *Request) Rest(now time.Time) time.Duration {
	if !r.CountsLine || r.Came.IsZero() {
		return r.MaxWait
	}
	return max(0, r.MaxWait-now.Sub(r.Came))
}

// inShare is how many permits it counts for in the share of its flow.
func (r *Request) inShare() int { return cmp.Or(r.Cost, r.N) }

// asOf is the request as it goes to the engine at a moment.
func (r *Request) asOf(now time.Time) engine.Request {
	maxWait := r.Rest(now)
	if !r.Deadline.IsZero() {
		maxWait = max(0, min(maxWait, r.Deadline.Sub(now)))
	}
	return engine.Request{N: r.N, Amounts: r.Amounts, Cost: r.Cost, MaxWait: maxWait}
}

// Reply is the answer to one request. The answers of one question are one
// array, so whoever sleeps copies its own.
type Reply struct {
	*engine.Answer
	Asked   time.Time // when the question went, on this process's clock
	Arrived time.Time // when the answer came
	Call    uint64    // numbers the calls in their order
}

// Slot is when the turn is due, or when asking again makes sense.
func (r Reply) Slot() time.Time { return r.Arrived.Add(r.Wait) }

// Ask returns the engine's answer to one request. If ctx ends first, Ask leaves
// the line, and what the caller was granted meanwhile goes back: within
// [ReturnBound], if the engine answers within it. Answer.Err of the reply is
// returned as the error.
func (a *Asker) Ask(ctx context.Context, r *Request) (Reply, error) {
	c, err := a.lineUp(ctx, *r)
	if err != nil {
		return Reply{}, err
	}
	return a.Await(ctx, Place{c})
}

// Again is a request of a caller whose earlier turn is void. A caller of a flow
// held that turn until now.
type Again struct {
	Ctx     context.Context
	Request Request
	Call    uint64 // as the reply said that granted the turn
}

// Place is a caller's place in line, which somebody else has taken for it.
type Place struct{ caller *caller }

// LineUpAgain lines up callers, given in the order of their calls, in front of
// all who called later. Each of them has to call [Asker.Await] with its place.
func (a *Asker) LineUpAgain(all []Again) []Place {
	places, lines := make([]Place, len(all)), map[*Line][]*caller{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, again := range all {
		c := a.newCaller(again.Ctx, again.Request)
		c.call, places[i] = again.Call, Place{c}
		l := c.request.Line
		l.ahead -= c.request.inShare()
		lines[l] = append(lines[l], c)
	}
	for l, callers := range lines {
		l.merge(callers)
		a.makeReady(l)
	}
	return places
}

// Await is [Asker.Ask] for a caller that stands in line already.
func (a *Asker) Await(ctx context.Context, p Place) (Reply, error) {
	c := p.caller
	var opened <-chan struct{}
	if a.Breaker != nil {
		opened = a.Breaker.Opened()
	}
	select {
	case <-c.told:
	case <-ctx.Done():
		return Reply{}, a.leave(ctx, c)
	case <-opened:
		if a.leaves(c) {
			return Reply{}, a.Breaker.Cause()
		}
		<-c.told
	}
	reply, err := c.outcome.result()
	a.spare.Put(c)
	return reply, err
}
