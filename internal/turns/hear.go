package turns

import (
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Clocks run apart by less than one part in drift.
const drift = 1000

// Hear learns what an answer tells of the queue.
//
// Every answer estimates when a slot comes: no sooner than that, and later by
// what the answer took. So the estimate to keep is the earliest of late, as long
// as the queue's clock goes on. If it stood still meanwhile, the newest is right
// and all before it are wrong: those asleep have to hear of that.
func (l *Sleepers) Hear(n *engine.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learnQuickest(n.Arrived.Sub(n.Asked))
	if n.Asked.Before(l.newest) {
		return // replies may arrive out of order
	}
	old := l.news
	l.newest = n.Asked
	l.tellWaiting()
	if n.Queue == "" {
		return // no turn has changed
	}
	if n.Reset && old.Queue != "" && old.Queue != n.Queue && n.Asked.After(l.heldAt) {
		l.free()
	}
	switch {
	case old.Queue != n.Queue:
		l.news = *n
		l.change()
		l.lineUpOthers(n)
	case l.Within == 0: // those asleep go as they were told
		l.news = *n
	case l.leapt(n):
		l.news = *n
		l.change()
	case putsOff(&old, n) < 0 || n.Asked.Sub(old.Asked) > l.Within/2:
		l.news = *n
	}
	l.settleHold(n, old.Stands > 0 || n.Stands > 0)
}

// settleHold, under mu, holds for as long as the queue stands still. Where the
// server's clock gains on this one a pause that it knows of is over a little
// sooner than was told; then the newest is right.
func (l *Sleepers) settleHold(n *engine.News, known bool) {
	ends := n.Asked.Add(n.Stands)
	if n.Stands > 0 {
		l.hold(ends, n.Asked)
	}
	if known && ends.Before(l.held) && l.held.Sub(ends) <= n.Asked.Sub(l.heldAt)/drift {
		l.held = ends
	}
}

// learnQuickest, under mu, follows what an answer takes at best: down at once,
// up slowly.
func (l *Sleepers) learnQuickest(took time.Duration) {
	if l.quickest == 0 || took < l.quickest {
		l.quickest = max(1, took)
	} else {
		l.quickest += (took - l.quickest) / 64
	}
}

// putsOff is how much later a slot comes by n than by old, of those that lie
// beyond whatever both know of.
func putsOff(old, n *engine.News) time.Duration {
	const beyond = int64(time.Hour / time.Microsecond)
	at := max(n.Clock, old.Clock, n.SlowUntil, old.SlowUntil, n.ThenUntil, old.ThenUntil) + beyond
	return n.Arrived.Add(n.Until(at)).Sub(old.Arrived.Add(old.Until(at)))
}

// leapt, under mu, reports whether slots come later or sooner than was known, by
// more than the answer took and clocks can have run apart. An answer that took
// long could hide that, so it is believed, and so is any while the queue is
// paused: the pause may have become longer by little.
func (l *Sleepers) leapt(n *engine.News) bool {
	took := n.Arrived.Sub(n.Asked)
	pace := func(n *engine.News) [4]int64 { return [4]int64{n.SlowUntil, n.SlowPace, n.ThenUntil, n.ThenPace} }
	slowed := n.SlowUntil > 0 && pace(n) != pace(&l.news)
	if took > l.Within/4 || slowed || n.Stands > 0 || l.news.Stands > 0 {
		return true
	}
	by, apart := putsOff(&l.news, n), n.Asked.Sub(l.news.Arrived)/drift
	return by > took+apart || -by > l.news.Arrived.Sub(l.news.Asked)+apart
}

// lineUpOthers, under mu, lines up again those whose queue was reset. If it was
// lost, they go as they were told, or later where its successor's news say so:
// the engine makes sure that their turns count.
func (l *Sleepers) lineUpOthers(n *engine.News) {
	var void []*Sleeper
	for _, s := range l.sleepers {
		if isVoid(s, n) {
			void = append(void, s)
		}
	}
	l.lineUpAgain(void)
}

// isVoid reports whether the queue of a caller's turn was reset.
func isVoid(s *Sleeper, n *engine.News) bool {
	return n.Reset && s.grant.ID != n.Queue && s.asked.Before(n.Asked)
}

// reckon, under mu, works out anew when the turn of a caller comes, if what it
// was told is too old, has changed since, or can be told better: by an answer
// that took less long. No turn comes sooner than was told: not by a server's
// clock that leaps ahead, nor in a queue that has lost a pause. If a queue was
// lost, the clock of its successor goes on from there.
func (l *Sleepers) reckon(s *Sleeper) {
	n := &l.news
	anew := n.Asked.After(s.asked) && (s.epoch != l.epoch || s.asked.Before(s.due.Add(-l.Within)))
	s.epoch = l.epoch
	if n.Queue == "" || l.Within == 0 {
		return
	}
	due := n.Arrived.Add(n.Until(s.grant.At))
	switch passed := n.Clock - s.grant.At; {
	case passed <= 0:
	case n.Stands > 0:
		due = s.due // it came before the clock stood still
	default:
		due = n.Arrived.Add(-time.Duration(passed) * time.Microsecond) // it came that long ago
	}
	earliest := s.due.Add(-s.took - n.Asked.Sub(s.asked).Abs()/drift)
	if due.Before(earliest) {
		due, l.later = s.due, max(l.later, s.call)
	}
	if !anew && (n.Stands > 0 || !due.Before(s.due)) { // a pause may have become longer since
		return
	}
	// The answer before may have told more exactly.
	s.took = min(n.Arrived.Sub(n.Asked), due.Sub(earliest))
	s.due, s.asked, s.givesUp = due, later(s.asked, n.Asked), time.Time{}
}
