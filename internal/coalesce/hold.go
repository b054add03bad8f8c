package coalesce

import (
	"math/rand/v2"
	"time"
)

const (
	// longestHold is for how long nobody of a flow is asked for at most. So its
	// callers hear of what has changed elsewhere: a reset, another ceiling,
	// permits that were given back.
	longestHold = time.Minute

	// mostApart is how much later than the engine tells a flow asks at most, and
	// a 32nd of the time at most. Else a process that is farther from the server
	// would always come too late for the room of a ceiling.
	mostApart = 20 * time.Millisecond
)

// HoldBack has nobody of a flow asked for during a pause of it.
func (a *Asker) HoldBack(l *Line, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holdBack(l, d, true)
}

// HeldBack is until when nobody of a flow is asked for, at least, and whether
// that is a pause; the zero time if nothing holds it back.
func (a *Asker) HeldBack(l *Line) (until time.Time, paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return l.until, l.paused
}

// LetGo has the callers of a flow asked for, or those of all flows without an
// id: what held them back is over.
func (a *Asker) LetGo(flow string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.letGoIf(func(l *Line) bool { return flow == "" || l.id == flow })
}

// letGoIf, under mu, has the callers of some of the flows asked for that are held
// back.
func (a *Asker) letGoIf(is func(*Line) bool) {
	for l := range a.held {
		if is(l) {
			a.letGo(l)
			a.makeReady(l)
		}
	}
}

// holdBack, under mu, has nobody of a flow asked for during a time. The newest
// word counts, but nothing ends a pause sooner.
func (a *Asker) holdBack(l *Line, d time.Duration, paused bool) {
	d = min(d, longestHold)
	if !paused {
		d += rand.N(min(d/32, mostApart) + 1)
	}
	until := time.Now().Add(d)
	if l.paused && until.Before(l.until) {
		return
	}
	a.letGo(l)
	l.until, l.paused = until, paused
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
		a.held = map[*Line]struct{}{}
	}
	a.held[l] = struct{}{}
}

// letGo, under mu, ends what holds a flow back.
func (a *Asker) letGo(l *Line) {
	if l.hold != nil {
		l.hold.Stop()
		l.hold, l.until, l.paused = nil, time.Time{}, false
		delete(a.held, l)
	}
}
