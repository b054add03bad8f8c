// Package upstream is the service whose quota everybody shares: an HTTP server
// that enforces it as a strict sliding log, answers 429 past it, and writes
// down everything that reached it.
package run

import (
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
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
	Closed   bool // since the upstream was closed, not because of the quota
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
	closed   time.Duration
	eras     []measure.Era
}

// NewLedger has seen nothing yet.
func NewLedger(permits int, per time.Duration, now func() time.Duration) *Ledger {
	return &Ledger{permits: permits, per: per, now: now}
}

// Close turns everybody away for so long. It returns from when to when.
func (l *Ledger) Close(d time.Duration) measure.Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.now()
	l.closed = from + d
	return measure.Span{From: from, To: l.closed}
}

// Change makes it another number of permits from now on. Anew forgets who was
// admitted before, so that no window counts that began earlier.
func (l *Ledger) Change(permits int, anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.permits = permits
	l.eras = append(l.eras, measure.Era{From: l.now(), Permits: permits, Anew: anew})
	if anew {
		l.oldest, l.within = len(l.arrivals), 0
	}
}

// Eras are the changes so far.
func (l *Ledger) Eras() []measure.Era {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.eras)
}

// Arrive stamps the arrival, writes it down and reports whether it was
// admitted, and if not, for how much longer the upstream is closed. One that is
// not admitted takes nothing from the quota.
func (l *Ledger) Arrive(a Arrival) (admitted bool, closed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.At = l.now()
	if closed = l.closed - a.At; closed > 0 {
		a.Rejected, a.Closed = true, true
		l.arrivals = append(l.arrivals, a)
		return false, closed
	}
	for ; l.oldest < len(l.arrivals) && l.arrivals[l.oldest].At <= a.At-l.per; l.oldest++ {
		if gone := l.arrivals[l.oldest]; !gone.Rejected {
			l.within -= gone.Permits
		}
	}
	a.Rejected = a.Permits > l.permits-l.within
	if !a.Rejected {
		l.within += a.Permits
	}
	l.arrivals = append(l.arrivals, a)
	return !a.Rejected, 0
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
