package engine

import "time"

// Flow is one of those who share a queue, as a question tells of it. All
// requests of a question for one flow have the same.
type Flow struct {
	ID     string // any text
	Weight int    // ≥ 1

	// LookAhead is how many permits all flows together hold ahead, 0 for the
	// engine's choice. It is the same in all flows of a question.
	LookAhead int

	// Ahead is how many permits the flow holds ahead in this process, not
	// counting what the question asks for.
	Ahead int
}

// Sharer is an [Engine] that shares its queue between flows.
//
// It decides a request that has a flow only as long as the flow holds at most
// its share ahead, and answers Left to the others. To a flow that holds nothing
// ahead it decides one request at least, however many permits that asks for.
// Either all requests of a question have flows or none.
type Sharer interface {
	Engine

	// AtBest is how long it takes at least until so many permits have gone, one
	// after the other, if nobody else has any.
	AtBest(permits int) time.Duration
}
