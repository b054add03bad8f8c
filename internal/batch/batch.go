// Package batch combines callers, so that many of them cost one question.
//
// While one question to the engine is under way, further callers line up. When
// its answer is there, all that have lined up go out in the next question, in
// the order in which they called. A caller that finds nobody there is asked for
// at once. There is no timer that waits for company.
//
// # Who serves
//
// One goroutine at a time sends questions, the server. The first caller in an
// idle Batcher starts it, and it ends when nobody is left in line. A caller
// that is alone and that nothing can call away may be its own server, which
// spares it two changes of goroutine: see [Batcher.HeedsCtx] and
// [Batcher.Prompt].
//
// A question that has no answer after five seconds is overdue: those it was
// sent for are told so, another goroutine serves, and what the answer grants
// after all is given back. With [Batcher.Away] they line up again instead.
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
// it tells it. One that the answer to another settles goes straight through. The caller moves itself to gone. Every move is one atomic operation, so
// exactly one side owns what was granted: an answered caller reads its answer,
// and for one that is gone the server gives back.
package batch

import (
	"context"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	// mostAsked bounds how many callers one question holds. The engine may
	// answer fewer to spare the server. Then the next question holds twice as
	// many as it answered, at least leastAsked: so callers whose requests all
	// differ are not sent over and over.
	mostAsked  = 1024
	leastAsked = 64

	// mostSpare bounds how many callers are kept for reuse.
	mostSpare = mostAsked

	// warm is how long an answer may take to be quick, and for how long after
	// it the next question is taken for one round trip.
	warm = 100 * time.Millisecond

	// ReturnBound is how long a caller that leaves stays for its answer and
	// for the word that its permits are back, both together. So a program
	// that ends right after Wait has given them back. They go back whether
	// the caller stays or not.
	ReturnBound = 25 * time.Millisecond
)

// Gate tells callers not to ask, and not to wait any longer, for a reason other
// than their own ctx.
type Gate interface {
	// Try is called before a caller lines up for whom a question goes next. It
	// does not line up if Try returns an error. A caller of a flow without room
	// lines up in any case. Try must not call the Batcher.
	Try() error

	// Opened is closed when callers are to leave.
	Opened() <-chan struct{}

	// Cause is the error of those who leave.
	Cause() error
}

// Batcher lines callers up in front of an engine. Its exported fields are set
// once, before the first call. An idle one holds no goroutine, no timer and no
// caller.
//
// Invariant, under mu: busy is true exactly while one goroutine serves. Whoever
// adds to waiting, ready or returns while busy is false starts a server. The server
// stops only under mu with all empty, or hands over to another goroutine. So
// nobody is left behind, and no goroutine is left over.
//
// In every line, the common one and those of flows, callers stand in the order of
// their calls. Whoever lines up again stands where it would stand if it had had
// no turn.
type Batcher struct {
	Engine engine.Engine

	// Gate, if it is not nil, turns callers away and calls them away. Without
	// one they leave when their ctx ends, and only then.
	Gate Gate

	// Away, if it is not nil, reports whether an error says that the engine is
	// away. Then callers that accept a wait stay in line, and the server asks
	// again once Probe does not fail like that. Probe asks the engine for
	// something that changes nothing.
	Away  func(error) bool
	Probe func(context.Context) error

	mu      sync.Mutex
	waiting []*caller
	returns []*giver
	spare   []*caller // for those who call next; empty while nobody serves
	busy    bool
	calls   uint64 // that have lined up

	away  error         // why the engine is away, nil since a question was answered
	pause time.Duration // the last one for that, of the server alone

	ready     []*Flow // those of whose line somebody may be asked for
	flowsNext bool    // the next question is for them, if others wait as well

	// HeedsCtx says that the engine returns when its ctx ends, so that a caller
	// whose own ctx never ends may ask in its own goroutine. With a gate or Away
	// nobody may.
	HeedsCtx bool

	// Prompt says that the engine ends each round trip within [bound.Answer]. A
	// question can be several, where a connection is new. But right after a
	// quick answer it is one, so that such a caller may ask by itself as well.
	Prompt bool
	quick  time.Time // when the last answer came, zero if it was not quick
}

// Request is what one caller asks for.
type Request struct {
	N        int
	MaxWait  time.Duration // the longest wait it accepts
	Deadline time.Time     // the latest turn it accepts, zero for any
	Flow     *Flow         // in whose line it stands, nil for the common one
	Began    time.Time     // from when MaxWait counts, zero for when the question goes
}

// Reply is the answer to one request. The answers of one question are one
// array, so whoever sleeps copies what it keeps of its own.
type Reply struct {
	*engine.Answer
	Asked   time.Time // when the question went, on this process's clock
	Arrived time.Time // when the answer came
	Call    uint64    // numbers the calls in their order
}

// Slot is when the turn is due, or when asking again makes sense.
func (r Reply) Slot() time.Time { return r.Arrived.Add(r.Wait) }

// Ask returns the engine's answer to one request. If ctx ends first, Ask leaves
// the line; what it was granted meanwhile goes back, within [ReturnBound] if
// the engine answers within it. If ctx ends by a cause of [Keep], Ask returns an
// answer that comes within it. Answer.Err of the reply is returned as the error.
func (b *Batcher) Ask(ctx context.Context, r Request) (Reply, error) {
	c, alone, err := b.lineUp(ctx, r)
	switch {
	case err != nil:
		return Reply{}, err
	case alone > 0:
		reply, err := b.askAlone(ctx, r)
		reply.Call = alone
		return reply, err
	}
	return b.answerOf(ctx, c)
}

func (b *Batcher) answerOf(ctx context.Context, c *caller) (Reply, error) {
	o, err := b.await(ctx, c)
	if err != nil {
		return Reply{}, err // c may be gone, it is never used again
	}
	call := c.call
	b.release(c)
	reply, err := o.reply()
	reply.Call = call
	return reply, err
}
