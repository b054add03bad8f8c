package engine

import (
	"context"
	"time"
)

// Flow describes the flow of a request. All requests of one question that
// belong to the same flow have the same Flow, and stand one after the other.
type Flow struct {
	ID     string // any text
	Weight int    // 1 to 1000

	// LookAhead is how many permits all flows together hold ahead, 0 for the
	// engine's choice. It is the same in all flows of a question.
	LookAhead int

	// Ahead is how many permits the flow holds ahead in this process, not
	// counting what the question asks for. A request is as many as its InShare.
	Ahead int

	// Wanted is how many permits its callers in this process hold ahead or want,
	// with those who are not in this question. If it is less than Ahead and what
	// the question asks for, that counts.
	Wanted int

	// Ceiling is what the flow itself may have, nil for no ceiling.
	Ceiling Ceiling
}

// Ceiling is a quota of one flow, inside those of the queue: see
// [Sharer.CeilingOf]. If another one is stored, it goes by that as soon as an
// answer has told.
type Ceiling interface {
	// Fits is [Engine.Fits] for the flow alone, and AtBest [Sharer.AtBest].
	Fits(n int) error
	AtBest(permits int) time.Duration
}

// Sharer is an [Engine] that shares its queue between flows.
//
// It decides requests of a flow as long as the flow holds at most its share
// ahead, and answers Left to the others. If a flow holds nothing ahead, it
// decides at least one request, however many permits that asks for. Either all
// requests of a question have flows or none has.
//
// A turn of a flow with a ceiling comes where both have room for it. If only the
// queue has room so soon, the answer is Left, with when the ceiling has room: the
// request takes no slot, and nobody waits for it.
type Sharer interface {
	Engine

	// CeilingOf is what a question of a flow says of its quota. Its error is that
	// of a [Builder] for such a quota.
	CeilingOf(q Quota) (Ceiling, error)

	// SetCeiling stores a quota for a flow, which counts in place of the ceiling
	// of its requests, and for those without one. Nil forgets it.
	SetCeiling(ctx context.Context, flow string, q *Quota) error

	// PauseFlow has all requests of a flow decided as if its ceiling had no room
	// for d from now on. A refusal because of that says so in Paused.
	PauseFlow(ctx context.Context, flow string, d time.Duration) error

	// AtBest is the shortest time in which so many permits can go, one after
	// the other, if nobody else has any.
	AtBest(permits int) time.Duration
}
