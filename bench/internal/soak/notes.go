package soak

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// notes are what happened under one name.
type notes struct {
	turns [len(ways)]engines.Notes // of each limiter

	mu       sync.Mutex
	went     []measure.Call // a limiter is a client; times are of the machine's wall clock, as Redis's are
	lateness []measure.Span // from when a call's ctx had ended until the call came back
	outcomes map[string]int // of calls

	// Calls of Cancel that came back after the slot. They may have found it due,
	// and left the turn as used.
	cancelledLate int
	unexpected    []string
}

func newNotes() *notes {
	n := &notes{outcomes: map[string]int{}}
	for limiter := range n.turns {
		n.turns[limiter].Now = measure.Now
	}
	return n
}

// log is what was noted, with a client for each limiter.
func (n *notes) log() measure.Log {
	log := measure.Log{Callers: make([]int, len(n.turns)), Calls: n.went}
	for limiter := range n.turns {
		log.Told = append(log.Told, n.turns[limiter].Told())
	}
	return log
}

// note changes the notes.
func (n *notes) note(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// arrived notes a caller that goes.
func (n *notes) arrived(limiter, permits int) {
	at := time.Duration(time.Now().UnixNano())
	n.note(func() {
		n.went = append(n.went, measure.Call{Client: limiter, Permits: permits, Ended: at, Outcome: measure.Granted})
	})
}

// ended notes how a call ended.
func (n *notes) ended(err error) {
	kind, expected := kindOf(err)
	n.note(func() {
		n.outcomes[kind]++
		if !expected && len(n.unexpected) < 10 {
			n.unexpected = append(n.unexpected, err.Error())
		}
	})
}

// kindOf names how a call ended, and says whether the faults of a soak explain
// it.
func kindOf(err error) (kind string, expected bool) {
	var refused *fairlimit.RefusedError
	switch {
	case err == nil:
		return "let through", true
	case errors.As(err, &refused):
		return "refused", true
	case errors.Is(err, fairlimit.ErrTooManyQueued):
		return "too many queued", true
	case errors.Is(err, fairlimit.ErrOutcomeUnknown):
		return "outcome unknown", true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "left: ctx ended", true
	case errors.Is(err, fairlimit.ErrUnreachable):
		return "unreachable", true
	case redis.HasErrorPrefix(err, "LOADING"):
		return "Redis: LOADING", true
	}
	return "other", false
}
