package turns

import "time"

// recent are for how long the newest answers were on their way.
type recent struct {
	answers [8]struct {
		asked time.Time
		took  time.Duration
	}
	next     int
	quickest time.Duration // 0 without any
}

// learn takes in what the answer to a question took. Many callers may have it in common.
// One that granted nothing need not have waited for replicas, so it does not make others
// look late. But it tells that answers take longer.
func (r *recent) learn(asked time.Time, took time.Duration, granted bool) {
	if took = max(1, took); took < r.quickest && !granted {
		return
	}
	for i := range r.answers {
		if r.answers[i].asked.Equal(asked) {
			return
		}
	}
	r.answers[r.next].asked, r.answers[r.next].took = asked, took
	r.next, r.quickest = (r.next+1)%len(r.answers), took
	for i := range r.answers {
		if a := &r.answers[i]; a.took > 0 {
			r.quickest = min(r.quickest, a.took)
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
