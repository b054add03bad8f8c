package turns

import (
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Hear takes in the news of an answer.
//
// Every answer estimates when a slot comes. The estimate is too late by at most
// what the answer took. So one that took longer is not kept, for a while,
// unless it tells later slots than that explains. If slots come at other
// moments of the server's clock, only the newest estimate is right, and
// sleepers have to hear of it.
func (l *Sleepers) Hear(n *engine.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, newest := l.news, l.newest
	if n.Asked.Before(newest) && (n.Queue == old.Queue || n.Server <= old.Server) {
		return // replies may arrive out of order
	}
	l.newest = later(newest, n.Asked)
	l.tellAwaiting()
	if n.Queue == "" {
		return // no turn has changed
	}
	if n.Reset && old.Queue != "" && old.Queue != n.Queue {
		l.free(newest) // the queue that was held was still there then
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
	case hasMoved(&old, n):
		l.news = *n
		l.change()
	case took(n) <= took(&old) || putsOff(&old, n) > l.excess(took(n)) || n.Asked.Sub(old.Asked) > l.Within/2:
		l.news = *n
	}
	l.settleHold(n, old.Stands > 0 || n.Stands > 0)
}

// took is for how long an answer was on its way.
func took(n *engine.News) time.Duration { return n.Arrived.Sub(n.Asked) }

// hasMoved reports whether slots come at another moment of the server's clock
// by n than by old, or that clock has stood still in between.
func hasMoved(old, n *engine.News) bool {
	at := beyond(old, n)
	return microseconds(n.Comes(at)-old.Comes(at)).Abs() > rounded ||
		len(n.Slow) > 0 && !slices.Equal(n.Slow, old.Slow) ||
		putsOff(old, n) > took(n)+n.Asked.Sub(old.Arrived)/drift
}

// putsOff is by how much later slots come by n than by old.
func putsOff(old, n *engine.News) time.Duration {
	at := beyond(old, n)
	return n.Arrived.Add(n.Until(at)).Sub(old.Arrived.Add(old.Until(at)))
}

// beyond is a slot beyond all that either tells of slow clocks.
func beyond(old, n *engine.News) int64 {
	return max(n.Clock, old.Clock, n.SlowUntil(), old.SlowUntil()) + time.Hour.Microseconds()
}

// lineUpOthers, under mu, lines up again the callers whose queue was reset. If
// their queue was lost, they go as they were told, or miss their turns: the engine
// makes sure that these count.
func (l *Sleepers) lineUpOthers() {
	var void []*Sleeper
	for _, s := range l.sleepers {
		if l.isVoid(s.grant.ID, s.granted) {
			void = append(void, s)
		}
	}
	l.lineUpAgain(void)
}

// isVoid, under mu, reports whether the queue of a turn was reset. A server may go
// back to before a reset.
func (l *Sleepers) isVoid(queue string, granted time.Time) bool {
	if queue == l.news.Queue || queue == "" {
		return false
	}
	return l.news.Reset || queue != l.resetQueue && granted.Before(l.resetHeard)
}
