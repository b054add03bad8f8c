package turns

import (
	"time"

	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// recent are the newest answers that granted turns. Looks are none of them, as they
// do not wait for replicas.
type recent struct {
	answers [8]struct {
		asked time.Time
		took  time.Duration
	}
	next     int
	quickest time.Duration // 0 without any
}

// learn takes in the answer of a reply. Many callers may have it in common.
func (r *recent) learn(reply *coalesce.Reply) {
	for i := range r.answers {
		if r.answers[i].asked.Equal(reply.Asked) {
			return
		}
	}
	newest := &r.answers[r.next]
	newest.asked, newest.took = reply.Asked, max(1, reply.Took())
	r.next, r.quickest = (r.next+1)%len(r.answers), newest.took
	for i := range r.answers {
		if a := &r.answers[i]; a.took > 0 && a.took < r.quickest {
			r.quickest = a.took
		}
	}
}

// excess, under mu, is how much longer an answer took than the quickest recent ones.
// The excess counts as lateness: the turn may have come while the answer was on its
// way. What every answer takes does not count, since a guard is there for delays
// that differ.
func (l *Sleepers) excess(took time.Duration) time.Duration {
	if l.recent.quickest == 0 {
		return 0
	}
	return max(0, took-l.recent.quickest)
}
