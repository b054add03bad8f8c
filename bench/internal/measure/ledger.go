package measure

import (
	"fmt"
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

	Changes []Change // in order
}

// Change is another number of permits, or the same, from a moment on. A phase of
// the run begins.
type Change struct {
	At      time.Duration
	Permits int
}

// Allows is how many permits a window may hold that ends at a moment.
func (l Limits) Allows(at time.Duration) int {
	permits := l.Permits
	for _, c := range l.Changes {
		if c.At <= at {
			permits = c.Permits
		}
	}
	return permits
}

// Ledger is what the service does whose quota everybody shares. It keeps the
// limit strictly, on one clock, and writes down everything that reached it.
type Ledger struct {
	now func() time.Duration

	mu sync.Mutex
	Limits
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
	c.Rejected = l.permits+c.Permits > l.Allows(c.Arrived) || !l.fits(c)
	if !c.Rejected {
		l.admitted = append(l.admitted, c)
		l.permits += c.Permits
	}
	l.arrivals = append(l.arrivals, c)
	return c
}

// Change begins a phase now.
func (l *Ledger) Change(permits int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Changes = append(l.Changes, Change{l.now(), permits})
}

// Policy is what the upstream allows now, as a RateLimit-Policy header.
func (l *Ledger) Policy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf(`"default";q=%d;w=%.0f`, l.Allows(l.now()), l.Per.Seconds())
}

// Arrivals are all so far, in order.
func (l *Ledger) Arrivals() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.arrivals)
}
