package turns

import (
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// Clocks run apart by less than one part in drift.
const drift = 1000

// turn is permits, when they may be used, and how that is known. Its slot comes at
// soonest or later, and by due: then its caller goes. The more quickly an answer
// comes, the closer it tells that.
type turn struct {
	grant        engine.Grant
	comes        int64 // on the server's clock: see engine.News.Comes
	soonest, due time.Time

	granted time.Time     // when the question went whose answer granted it
	asked   time.Time     // and when that went whose answer told it last
	excess  time.Duration // of what that answer took, or less by what others told
	givesUp time.Time     // until when the caller insists on news, zero if it does not
}

// newTurn, under mu, is what a reply granted.
func (l *Sleepers) newTurn(r *coalesce.Reply) turn {
	return turn{
		grant: r.Grant, comes: r.Comes, soonest: r.Slot().Add(-r.Took()), due: r.Slot(),
		granted: r.Asked, asked: r.Asked, excess: l.excess(r.Took()),
	}
}

// reckon, under mu, takes in what the news tell of a turn. If its slot comes at
// the same moment of the server's clock, that moment is when both say so, or
// when the news say if that is later by more than they were late. Else
// something has put it off, or a clock was set. No turn comes sooner than was
// told, even if the server's clock leaps ahead or the queue has lost a pause.
func (l *Sleepers) reckon(s *Sleeper) {
	n := l.newsOf(s)
	if n == nil || l.Within == 0 {
		return
	}
	soonest, due := between(n, s.grant.At)
	apart, isNewer := max(0, n.Asked.Sub(s.asked))/drift, n.Asked.After(s.asked)
	from := s.soonest.Add(-apart)
	moved := microseconds(n.Comes(s.grant.At) - s.comes)
	switch {
	case due.Before(from):
	case moved.Abs() <= rounded && !soonest.After(s.due.Add(apart)):
		switch differs := due.Sub(s.due); {
		case differs.Abs() <= rounded:
			due = s.due
		case differs > 0: // and not only because that answer was late: clocks have run apart, or were set
			due = later(s.due, due.Add(-l.excess(took(n))))
			s.keepAccepting(due)
		}
		s.soonest, s.due, s.asked = later(from, soonest), due, later(s.asked, n.Asked)
		s.excess = min(s.excess, l.excess(s.due.Sub(s.soonest)))
	case isNewer && n.Passed(s.grant.At) > 0: // it may have passed long before: see engine.News.Passed
		s.asked = n.Asked
	case isNewer:
		s.comes, s.asked = n.Comes(s.grant.At), n.Asked
		if moved > 0 || due.After(s.due) {
			s.soonest, s.due = soonest, due
			s.excess, s.givesUp = l.excess(took(n)), time.Time{}
		}
	}
}

// newsOf, under mu, are the newest news of the queue of a turn, nil without any.
func (l *Sleepers) newsOf(s *Sleeper) *engine.News {
	for _, n := range []*engine.News{&l.news, &l.before} {
		if n.Queue == s.grant.ID {
			return n
		}
	}
	return nil
}

// between is between when and when a slot comes, as an answer tells it: the server
// wrote the answer after the question went, and before it came.
func between(n *engine.News, slot int64) (soonest, due time.Time) {
	due = n.Arrived.Add(n.Until(slot))
	if passed := n.Passed(slot); passed > 0 {
		due = n.Arrived.Add(-passed)
	}
	return due.Add(-took(n)), due
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
