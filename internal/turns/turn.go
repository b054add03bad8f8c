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
	soonest, due time.Time

	asked time.Time // when the question went that the newest answer to tell of it answers
	told  time.Time // when the answer came that told due

	excess  time.Duration // of what the answer took that told due
	givesUp time.Time     // until when the caller insists on news, zero if it does not
}

// newTurn, under mu, is what a reply granted.
func (l *Sleepers) newTurn(r *coalesce.Reply) turn {
	t := turn{grant: r.Grant, asked: r.Asked, excess: l.excess(r.Took())}
	t.tell(r.Slot().Add(-r.Took()), r.Slot(), r.Asked.Add(r.Took()))
	return t
}

// tell takes in when the slot comes by an answer that came at a moment.
func (t *turn) tell(soonest, due, told time.Time) {
	t.soonest, t.due, t.told, t.givesUp = soonest, due, told, time.Time{}
}

// reckon, under mu, takes in what the news tell of a turn. If they agree with what is
// known, its slot comes when both say so. If they say that it comes later, something
// has put it off; while the queue's clock stands still or is slow, by however little. If
// they say that it comes sooner, the server's clock has leapt ahead or the queue has lost
// a pause, and the turn stays: no turn comes sooner than was told.
func (l *Sleepers) reckon(s *Sleeper) {
	n := l.newsOf(s)
	if n == nil || l.Within == 0 {
		return
	}
	soonest, due := comes(n, s.grant.At)
	known := s.soonest.Add(-n.Asked.Sub(s.asked).Abs() / drift)
	switch {
	case due.Before(known):
	case due.Before(s.due):
		if l.newest.Before(s.told) {
			return // what has put the turn off may have happened in between
		}
		s.tell(later(known, soonest), due, n.Arrived)
		s.excess = min(s.excess, l.excess(due.Sub(s.soonest)))
	case !n.Asked.After(s.asked):
		return
	case soonest.After(s.due) || due.Sub(s.due) > l.Within/4 || n.Stands > 0 || len(n.Slow) > 0:
		s.tell(soonest, due, n.Arrived)
		s.excess = l.excess(due.Sub(soonest))
	default:
		s.soonest = later(known, soonest)
		s.excess = min(s.excess, l.excess(s.due.Sub(s.soonest)))
	}
	s.asked = later(s.asked, n.Asked)
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

// comes is between when and when a slot comes, as an answer tells it: the server
// wrote the answer after the question went, and before it came.
func comes(n *engine.News, slot int64) (soonest, due time.Time) {
	due = n.Arrived.Add(n.Until(slot))
	if passed := n.Clock - slot; passed > 0 {
		due = n.Arrived.Add(-time.Duration(passed) * time.Microsecond)
	}
	return due.Add(-n.Arrived.Sub(n.Asked)), due
}
