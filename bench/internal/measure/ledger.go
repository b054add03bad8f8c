package measure

import (
	"slices"
	"sync"
	"time"
)

// Ledger is what the service does whose quota everybody shares. It admits at
// most so many permits in any half-open window of length per, on one clock, and
// writes down everything that reached it.
type Ledger struct {
	permits int
	per     time.Duration
	now     func() time.Duration

	mu       sync.Mutex
	arrivals []Call
	oldest   int // the first arrival that still counts
	within   int // permits admitted since then
}

// NewLedger has seen nothing yet.
func NewLedger(permits int, per time.Duration, now func() time.Duration) *Ledger {
	return &Ledger{permits: permits, per: per, now: now}
}

// Arrive stamps the call, writes it down and returns it. A call that is rejected
// takes nothing from the quota.
func (l *Ledger) Arrive(c Call) Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Reached, c.Arrived = true, l.now()
	for ; l.oldest < len(l.arrivals) && l.arrivals[l.oldest].Arrived <= c.Arrived-l.per; l.oldest++ {
		if gone := l.arrivals[l.oldest]; !gone.Rejected {
			l.within -= gone.Permits
		}
	}
	c.Rejected = c.Permits > l.permits-l.within
	if !c.Rejected {
		l.within += c.Permits
	}
	l.arrivals = append(l.arrivals, c)
	return c
}

// Arrivals are all so far, in order.
func (l *Ledger) Arrivals() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.arrivals)
}

// Count is how many arrived so far.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.arrivals)
}
