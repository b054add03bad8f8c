package engine

import "time"

// Flow describes the flow of a request. All requests of one question that
// belong to the same flow have the same Flow.
type Flow struct {
	ID     string // any text
	Weight int    // 1 to 1000

	// LookAhead is how many permits all flows together hold ahead, 0 for the
	// engine's choice. It is the same in all flows of a question.
	LookAhead int

	// Ahead is how many permits the flow holds ahead in this process, not
	// counting what the question asks for.
	Ahead int

	// Wanted is how many permits its callers in this process hold ahead or want,
	// with those who are not in this question. If it is less than Ahead and what
	// the question asks for, that counts.
	Wanted int
}

// Sharer is an [Engine] that shares its queue between flows.
//
// It decides requests of a flow as long as the flow holds at most its share
// ahead, and answers Left to the others. If a flow holds nothing ahead, it
// decides at least one request, however many permits that asks for. Either all
// requests of a question have flows or none has.
type Sharer interface {
	Engine

	// AtBest is the shortest time in which so many permits can go, one after
	// the other, if nobody else has any.
	AtBest(permits int) time.Duration
}
