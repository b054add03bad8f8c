package turns

import "time"

// recent are for how long the newest answers were on their way.
type recent struct {
	took     [8]time.Duration
	next     int
	quickest time.Duration // 0 without any
}

// learn takes in what an answer took. One that granted nothing need not have
// waited for replicas, so it does not make others look late. But it tells that
// answers take longer.
func (r *recent) learn(took time.Duration, granted bool) {
	if took = max(1, took); took < r.quickest && !granted {
		return
	}
	r.took[r.next], r.quickest = took, took
	r.next = (r.next + 1) % len(r.took)
	for _, d := range r.took {
		if d > 0 {
			r.quickest = min(r.quickest, d)
		}
	}
}

// Answered is told once what the answer to a question took, and whether it granted
// anything. [coalesce.Asker].Answered calls it.
func (l *Sleepers) Answered(took time.Duration, granted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent.learn(took, granted)
}

// excess, under mu, is how much longer an answer took than the quickest recent
// ones. The excess counts as lateness: the turn may have come while the answer
// was on its way. What every answer takes does not count, since a guard is
// there for delays that differ.
func (l *Sleepers) excess(took time.Duration) time.Duration {
	if l.recent.quickest == 0 {
		return 0
	}
	return max(0, took-l.recent.quickest)
}
