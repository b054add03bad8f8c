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

	asked, told time.Time     // when the question went whose answer told due, and when that came
	excess      time.Duration // of what that answer took, or less by what others told since
	givesUp     time.Time     // until when the caller insists on news, zero if it does not
}

// newTurn, under mu, is what a reply granted.
func (l *Sleepers) newTurn(r *coalesce.Reply) turn {
	return turn{
		grant: r.Grant, soonest: r.Slot().Add(-r.Took()), due: r.Slot(),
		asked: r.Asked, told: r.Asked.Add(r.Took()), excess: l.excess(r.Took()),
	}
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
	case due.Before(s.due) && l.newest.Before(s.told): // something may have put it off in between
	case due.Before(s.due):
		s.tell(n, later(known, soonest), due)
		s.excess = min(s.excess, l.excess(due.Sub(s.soonest)))
	case !n.Asked.After(s.asked):
	case soonest.After(s.due) || due.Sub(s.due) > l.Within/4 || n.Stands > 0 || len(n.Slow) > 0:
		s.tell(n, soonest, due)
		s.excess = l.excess(due.Sub(soonest))
	default:
		s.soonest = later(known, soonest)
		s.excess = min(s.excess, l.excess(s.due.Sub(s.soonest)))
	}
}

// tell takes in that an answer tells due.
func (t *turn) tell(n *engine.News, soonest, due time.Time) {
	t.soonest, t.due, t.asked, t.told = soonest, due, n.Asked, n.Arrived
	t.givesUp = time.Time{}
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
	return due.Add(-took(n)), due
}
