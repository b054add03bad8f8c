package measure

import (
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

// Limits are what the service allows: at most so many permits in any half-open
// window of length Per.
type Limits struct {
	Permits int
	Per     time.Duration
	Ceiling fairlimit.Quota // of each client; zero for none

	// Input and Output are the tokens in a window of the quota, 0 if they do not
	// count.
	Input, Output int
}

// Ledger is what the service does whose quota everybody shares. It keeps the
// limit of all calls and that of each client strictly, on one clock, and writes
// down everything that reached it.
type Ledger struct {
	Limits
	now func() time.Duration

	mu       sync.Mutex
	arrivals []Call
	whole    admitted
	clients  map[int]*admitted
}

// NewLedger has seen nothing yet.
func NewLedger(l Limits, now func() time.Duration) *Ledger {
	return &Ledger{Limits: l, now: now, clients: map[int]*admitted{}}
}

// Arrive stamps the call, writes it down and returns it. A call that is rejected
// takes nothing from any limit.
func (l *Ledger) Arrive(c Call) Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Reached, c.Arrived = true, l.now()
	client := l.clients[c.Client]
	if client == nil {
		client = &admitted{}
		l.clients[c.Client] = client
	}
	c.Rejected = !l.whole.room(l.Permits, l.Per, c) || !client.room(l.Ceiling.Permits, l.Ceiling.Per, c) || !l.fits(c)
	if !c.Rejected {
		l.whole.add(c)
		client.add(c)
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

// admitted are the calls that still count against a limit.
type admitted struct {
	calls   []Call
	permits int
}

// room forgets what does not count any more, and reports whether there is room
// for a call that arrives now.
func (a *admitted) room(permits int, per time.Duration, c Call) bool {
	for len(a.calls) > 0 && a.calls[0].Arrived <= c.Arrived-per {
		a.permits -= a.calls[0].Permits
		a.calls = a.calls[1:]
	}
	return permits == 0 || a.permits+c.Permits <= permits
}

func (a *admitted) add(c Call) {
	a.calls = append(a.calls, c)
	a.permits += c.Permits
}
