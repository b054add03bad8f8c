package turns

import (
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// hold lets nobody go before until. It was said at a moment, last.
type hold struct{ until, at time.Time }

// held, under mu, is the hold that ends last.
func (l *Sleepers) held() hold {
	if len(l.heldBy) == 0 {
		return hold{}
	}
	return l.heldBy[0]
}

// Hold lets nobody go before a moment, whatever Redis says. If Within is 0,
// callers that sleep go all the same.
func (l *Sleepers) Hold(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold(hold{until, time.Now()})
}

// hold, under mu, adds a hold. It takes the place of those that were said before it
// and end no later.
func (l *Sleepers) hold(h hold) {
	old := l.held().until
	to := len(l.heldBy)
	for to > 0 && l.heldBy[to-1].at.After(h.at) {
		to--
	}
	if to < len(l.heldBy) && !l.heldBy[to].until.Before(h.until) {
		return
	}
	from := to
	for from > 0 && !l.heldBy[from-1].until.After(h.until) {
		from--
	}
	l.heldBy = slices.Replace(l.heldBy, from, to, h)
	if h.until.After(old) {
		l.change()
	}
}

// Free ends the holds that were said before the queue was asked to reset. What was
// said later stays: the pause may have come after the reset.
func (l *Sleepers) Free(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(asked)
}

// free, under mu, is Free.
func (l *Sleepers) free(asked time.Time) {
	for len(l.heldBy) > 0 && !l.heldBy[0].at.After(asked) {
		l.heldBy = l.heldBy[1:]
		l.change()
	}
}

// holdsAsleep, under mu, is up to when sleepers are held.
func (l *Sleepers) holdsAsleep() time.Time {
	if l.Within == 0 {
		return time.Time{}
	}
	return l.held().until
}

// Held returns for how much longer nobody goes, and a channel that closes when
// that may have changed.
func (l *Sleepers) Held() (left time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.held().until; !until.IsZero() { // a look at the clock is not free
		left = max(0, time.Until(until))
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
	return time.Since(later(l.newest, l.held().at)) > l.Within
}

// settleHold, under mu, holds for as long as the queue stands still: the server
// said so after the question went, and before the answer came. If its clock
// gains on this one, a pause is over a little sooner than an older answer told.
// Then the newest is right.
func (l *Sleepers) settleHold(n *engine.News, known bool) {
	held, ends, latest := l.held(), n.Asked.Add(n.Stands), n.Arrived.Add(n.Stands)
	switch sooner := held.until.Sub(latest); {
	case n.Stands > 0 && !ends.Before(held.until):
		l.hold(hold{ends, n.Asked})
	case known && sooner > 0 && sooner <= n.Asked.Sub(held.at)/drift:
		l.heldBy = l.heldBy[1:]
		l.hold(hold{latest, held.at})
	}
}
