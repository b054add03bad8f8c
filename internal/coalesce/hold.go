package coalesce

import (
	"math/rand/v2"
	"time"
)

const (
	// longestHold is for how long nobody of a flow is asked for at most. So its
	// callers hear of what has changed: a reset, another ceiling, permits that
	// were given back.
	longestHold = 10 * time.Second

	// mostApart is how much later than the engine tells a flow asks at most, and
	// a 32nd of the time at most. Else a process that is farther from the server
	// would always come too late for the room of a ceiling.
	mostApart = 20 * time.Millisecond
)

// Lined is how many permits the callers in the line of a flow ask for. Until is
// until when nobody of it is asked for, at least, and paused whether that is a
// pause; the zero time if nothing holds it back.
func (a *Asker) Lined(l *Line) (permits int, until time.Time, paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return l.lined, l.until, l.paused
}

// holdBack, under mu, has nobody of a flow asked for during a time.
func (a *Asker) holdBack(l *Line, d time.Duration, paused bool) {
	d = min(d, longestHold)
	d += rand.N(min(d/32, mostApart) + 1)
	l.letGo()
	l.until, l.paused = time.Now().Add(d), paused
	var hold *time.Timer
	hold = time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if l.hold == hold {
			l.letGo()
			a.makeReady(l)
		}
	})
	l.hold = hold
}

// letGo, under mu of the Asker, ends what holds a flow back.
func (l *Line) letGo() {
	if l.hold != nil {
		l.hold.Stop()
		l.hold, l.until, l.paused = nil, time.Time{}, false
	}
}
