// Package upstream is the service whose quota everybody shares: an HTTP server
// that enforces it as a strict sliding log, answers 429 past it, and writes
// down everything that reached it.
package upstream

import (
	"sync"
	"time"
)

// Arrival is one request as the upstream saw it.
type Arrival struct {
	Client   int
	Caller   int
	Seq      int
	Permits  int
	Called   time.Duration // when the caller says that it asked its limiter
	At       time.Duration
	Rejected bool
}

// Ledger admits at most so many permits in any half-open window of length per,
// on one clock.
type Ledger struct {
	permits int
	per     time.Duration
	now     func() time.Duration

	mu       sync.Mutex
	arrivals []Arrival
	oldest   int // the first arrival that still counts
	within   int // permits admitted since then
}

// NewLedger has seen nothing yet.
func NewLedger(permits int, per time.Duration, now func() time.Duration) *Ledger {
	return &Ledger{permits: permits, per: per, now: now}
}

// Arrive stamps the arrival, writes it down and reports whether it was
// admitted. One that is not takes nothing from the quota.
func (l *Ledger) Arrive(a Arrival) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.At = l.now()
	for ; l.oldest < len(l.arrivals) && l.arrivals[l.oldest].At <= a.At-l.per; l.oldest++ {
		if gone := l.arrivals[l.oldest]; !gone.Rejected {
			l.within -= gone.Permits
		}
	}
	a.Rejected = l.within+a.Permits > l.permits
	if !a.Rejected {
		l.within += a.Permits
	}
	l.arrivals = append(l.arrivals, a)
	return !a.Rejected
}

// Arrivals are all so far, in order.
func (l *Ledger) Arrivals() []Arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Arrival(nil), l.arrivals...)
}

// Count is how many arrived so far.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.arrivals)
}
