package turns

import (
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Clocks run apart by less than one part in drift.
const drift = 1000

// Hear takes in the news of an answer.
//
// Every answer estimates when a slot comes. The estimate is too late by at most
// what the answer took. So the earliest of the recent estimates is kept, as
// long as the queue's clock runs. If the clock stood still meanwhile, only the
// newest estimate is right, and sleepers have to hear of it.
func (l *Sleepers) Hear(n *engine.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, newest := l.news, l.newest
	if n.Asked.Before(newest) && (n.Queue == old.Queue || n.Server <= old.Server) {
		return // replies may arrive out of order
	}
	leapt := l.leapt(n)
	if n.Queue == old.Queue && l.isVague(n.Arrived.Sub(n.Asked)) {
		if !leapt && l.looking == 0 {
			return // whoever needs news looks
		}
		leapt = true // it may hide a leap
	}
	l.newest = later(newest, n.Asked)
	l.tellAwaiting()
	if n.Queue == "" {
		return // no turn has changed
	}
	if n.Reset && old.Queue != "" && old.Queue != n.Queue && !newest.Before(l.heldAt) {
		l.free() // the queue that was held was still there
	}
	if n.Reset && old.Queue != n.Queue {
		l.resetQueue, l.resetHeard = n.Queue, n.Arrived
	}
	switch {
	case old.Queue != n.Queue:
		l.before, l.news = old, *n
		l.change()
		l.lineUpOthers()
	case l.Within == 0: // sleepers go as they were told
		l.news = *n
	case leapt:
		l.news = *n
		l.change()
	case putsOff(&old, n) < 0 || n.Asked.Sub(old.Asked) > l.Within/2:
		l.news = *n
	}
	if l.uncertain {
		l.uncertain = false
		l.wake()
	}
	l.settleHold(n, old.Stands > 0 || n.Stands > 0)
}

// putsOff is how much later slots come by n than by old, at a moment beyond all
// that either tells of slow clocks.
func putsOff(old, n *engine.News) time.Duration {
	const beyond = int64(time.Hour / time.Microsecond)
	at := max(n.Clock, old.Clock, n.SlowUntil(), old.SlowUntil()) + beyond
	return n.Arrived.Add(n.Until(at)).Sub(old.Arrived.Add(old.Until(at)))
}

// leapt, under mu, reports whether slots come later or sooner than was known,
// by more than the answer took and clocks can have run apart. Any answer in a
// pause counts as a leap: the pause may have become a little longer.
func (l *Sleepers) leapt(n *engine.News) bool {
	slowed := len(n.Slow) > 0 && !slices.Equal(n.Slow, l.news.Slow)
	if slowed || n.Stands > 0 || l.news.Stands > 0 {
		return true
	}
	by, apart := putsOff(&l.news, n), n.Asked.Sub(l.news.Arrived)/drift
	return by > n.Arrived.Sub(n.Asked)+apart || -by > l.news.Arrived.Sub(l.news.Asked)+apart
}

// lineUpOthers, under mu, lines up again the callers whose queue was reset. If
// their queue was lost, they go as they were told, or miss their turns: the engine
// makes sure that these count.
func (l *Sleepers) lineUpOthers() {
	var void []*Sleeper
	for _, s := range l.sleepers {
		if l.isVoid(s.grant.ID, s.request.Reply.Asked) {
			void = append(void, s)
		}
	}
	l.lineUpAgain(void)
}

// isVoid, under mu, reports whether the queue of a turn was reset. A server may go
// back to before a reset.
func (l *Sleepers) isVoid(queue string, asked time.Time) bool {
	if queue == l.news.Queue || queue == "" {
		return false
	}
	return l.news.Reset || queue != l.resetQueue && asked.Before(l.resetHeard)
}

// reckon, under mu, works out anew when the turn of a caller comes: if the old
// estimate is too old, if something has changed since, or if an answer that
// took less long gives a better one. No turn comes sooner than was told, even
// if the server's clock leaps ahead or the queue has lost a pause.
func (l *Sleepers) reckon(s *Sleeper) {
	n := &l.news
	if n.Queue != s.grant.ID { // nobody tells of its queue any more
		n = &l.before
	}
	anew := n.Asked.After(s.asked) && (s.epoch != l.epoch || s.asked.Before(s.due.Add(-l.Within)))
	s.epoch = l.epoch
	older := l.newest.Before(s.asked.Add(s.took)) && s.took > l.Within/4 // they may lack what has put it off
	if n.Queue != s.grant.ID || l.Within == 0 || older {
		return
	}
	due, passed := n.Arrived.Add(n.Until(s.grant.At)), n.Clock-s.grant.At
	if passed > 0 {
		due = n.Arrived.Add(-time.Duration(passed) * time.Microsecond) // the slot came that long ago
	}
	if l.tellsTheSame(n, s, due) {
		s.took = min(s.took, n.Arrived.Sub(n.Asked)-due.Sub(s.due))
		s.excess = min(s.excess, l.excess(s.took))
		s.asked = later(s.asked, n.Asked)
		return
	}
	earliest := s.due.Add(-s.took - n.Asked.Sub(s.asked).Abs()/drift)
	took := min(n.Arrived.Sub(n.Asked), due.Sub(earliest))
	if passed > 0 && n.Stands > 0 || due.Before(earliest) { // they do not tell when it came, or how exact due is
		due, took = s.due, s.took
	}
	if !anew && (n.Stands > 0 || !due.Before(s.due)) { // a pause may have become longer since
		return
	}
	// The answer before may have told due more exactly.
	s.due, s.took, s.excess, s.givesUp = due, took, l.excess(took), time.Time{}
	s.asked = later(s.asked, n.Asked)
}

// tellsTheSame, under mu, reports whether news fit what is known of a turn, and tell
// it less well: they are as much later as their answer may have taken, by little.
func (l *Sleepers) tellsTheSame(n *engine.News, s *Sleeper, due time.Time) bool {
	took, later := n.Arrived.Sub(n.Asked), due.Sub(s.due)
	return n.Stands == 0 && len(n.Slow) == 0 && !l.isVague(took) && 0 <= later && later <= min(took, l.Within/4)
}
