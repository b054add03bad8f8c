package measure

import (
	"slices"
	"sync"
	"time"
)

// Limits are what the service allows: at most so many permits in any half-open
// window of length Per.
type Limits struct {
	Permits int
	Per     time.Duration

	// Input and Output are the tokens in a window of the quota, 0 if they do not
	// count.
	Input, Output int
}

// Ledger is what the service does whose quota everybody shares. It keeps the
// limit strictly, on one clock, and writes down everything that reached it.
type Ledger struct {
	Limits
	now func() time.Duration

	mu       sync.Mutex
	arrivals []Call
	admitted []Call // those that still count
	permits  int    // of these
}

// NewLedger has seen nothing yet.
func NewLedger(l Limits, now func() time.Duration) *Ledger { return &Ledger{Limits: l, now: now} }

// Arrive stamps the call, writes it down and returns it. A call that is rejected
// takes nothing from the limit.
func (l *Ledger) Arrive(c Call) Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Reached, c.Arrived = true, l.now()
	for len(l.admitted) > 0 && l.admitted[0].Arrived <= c.Arrived-l.Per {
		l.permits -= l.admitted[0].Permits
		l.admitted = l.admitted[1:]
	}
	c.Rejected = l.permits+c.Permits > l.Permits || !l.fits(c)
	if !c.Rejected {
		l.admitted = append(l.admitted, c)
		l.permits += c.Permits
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
