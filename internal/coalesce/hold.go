package coalesce

import (
	"math/rand/v2"
	"time"
)

const (
	// longestHold is for how long nobody of a flow is asked for at most. So its
	// callers hear of what others have changed: a reset, another ceiling, permits
	// that they gave back.
	longestHold = 10 * time.Second

	// mostApart is how much later than the engine tells a flow asks at most, and
	// a 32nd of the time at most. Else a process that is farther from the server
	// would always come too late for the room of a ceiling.
	mostApart = 20 * time.Millisecond
)

// Lined is how many permits the callers in the line of a flow ask for, without
// those that ask for too many. Nobody of the flow is asked for before until,
// which is zero if nothing holds the flow back. Paused says that a pause does.
func (a *Asker) Lined(l *Line) (permits int, until time.Time, paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return l.lined, l.until, l.paused
}

// holdBack, under mu, has nobody of a flow asked for during a time: the flow is
// paused, or its ceiling has no room for a caller of so many permits.
func (a *Asker) holdBack(l *Line, d time.Duration, permits int, paused bool) {
	if l.hold != nil {
		return // an earlier caller was told
	}
	d = min(d, longestHold)
	d += rand.N(min(d/32, mostApart) + 1)
	l.until, l.noRoomFor, l.paused = time.Now().Add(d), permits, paused
	var hold *time.Timer
	hold = time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if l.hold == hold {
			a.letGo(l)
			a.makeReady(l)
		}
	})
	l.hold = hold
	if a.held == nil {
		a.held = map[string]*Line{}
	}
	a.held[l.id] = l
}

// letGo, under mu, ends what holds a flow back.
func (a *Asker) letGo(l *Line) {
	if l.hold != nil {
		l.hold.Stop()
		l.hold, l.until, l.noRoomFor, l.paused = nil, time.Time{}, 0, false
		delete(a.held, l.id)
	}
}

// reopen, under mu, has a flow asked for again that its ceiling holds back, since
// permits of it come back.
func (a *Asker) reopen(l *Line) {
	if !l.paused {
		a.letGo(l)
	}
	a.makeReady(l)
}
