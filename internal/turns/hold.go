package turns

import (
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// hold lets nobody go before until. It was said at a moment, last.
type hold struct{ until, at time.Time }

// Hold lets nobody go before a moment, whatever Redis says. If Within is 0,
// callers that sleep go all the same.
func (l *Sleepers) Hold(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.hold(until, now)
	l.heldNext = hold{until, now}
}

// hold, under mu, is Hold as of a moment.
func (l *Sleepers) hold(until, at time.Time) {
	switch {
	case until.After(l.held.until):
		l.held = hold{until, at}
		l.change()
	case until.Equal(l.held.until):
		l.held.at = later(l.held.at, at)
	}
}

// Free ends a hold that was said before the queue was asked to reset. A hold that
// was said later stays: the pause may have come after the reset.
func (l *Sleepers) Free(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(asked)
}

// free, under mu, is Free.
func (l *Sleepers) free(asked time.Time) {
	if l.held.at.After(asked) || l.held.until.IsZero() {
		return
	}
	l.held = hold{}
	if l.heldNext.at.After(asked) {
		l.held = l.heldNext
	}
	l.change()
}

// holdsAsleep, under mu, is up to when sleepers are held.
func (l *Sleepers) holdsAsleep() time.Time {
	if l.Within == 0 {
		return time.Time{}
	}
	return l.held.until
}

// Held returns for how much longer nobody goes, and a channel that closes when
// that may have changed.
func (l *Sleepers) Held() (left time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held.until.IsZero() { // a look at the clock is not free
		left = max(0, time.Until(l.held.until))
	}
	if left > 0 && l.changed == nil {
		l.changed = make(chan struct{})
	}
	return left, l.changed
}

// Stale reports whether the news and the hold are so old that somebody may have
// reset the queue since.
func (l *Sleepers) Stale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(later(l.newest, l.held.at)) > l.Within
}

// settleHold, under mu, holds for as long as the queue stands still. If the
// server's clock gains on this one, a pause is over a little sooner than an
// older answer told. Then the newest answer is right.
func (l *Sleepers) settleHold(n *engine.News, known bool) {
	ends := n.Asked.Add(n.Stands)
	if n.Stands > 0 {
		l.hold(ends, n.Asked)
	}
	if known && ends.Before(l.held.until) && l.held.until.Sub(ends) <= n.Asked.Sub(l.held.at)/drift {
		l.held.until = ends
	}
}
