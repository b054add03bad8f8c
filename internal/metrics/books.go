// Package metrics keeps the books from which modules promlimit and otellimit make
// metrics: which metrics there are, what each event of a trace means for them,
// and how things stand when somebody looks.
package metrics

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit"
)

// StatusBound is how long one look may wait for the Status of a limiter.
const StatusBound = time.Second

// Meter takes what is counted as it happens. Its methods are called by many
// goroutines at once.
type Meter interface {
	Waited(d time.Duration)      // into [WaitDuration]
	Permits(o Outcome, n int)    // into [Permits]
	Woke(lateness time.Duration) // into [WakeLateness]

	Settled(unit string, reserved, used int) // into [Settled]

	Asked(op string, failed bool) // into [Questions]
	Shared(callers int)           // into [QuestionCallers]
	Paused()                      // into [Pauses]
	Lost()                        // into [Losses]
}

// Books is the books of one limiter. Make it with [New].
type Books struct {
	meter   Meter
	watched atomic.Pointer[fairlimit.Limiter]

	failures atomic.Int64 // looks that got no Status

	mu          sync.Mutex
	callers     int // between Entered and Left,
	permits     int // and their permits
	reserved    reserved
	pausedUntil time.Time // by this limiter,
	unrecorded  bool      // and Redis may not know of it
	degraded    bool
}

// New makes the books whose counts go to a meter.
func New(m Meter) *Books { return &Books{meter: m} }

// Trace is what a limiter has to tell.
func (b *Books) Trace() *fairlimit.Trace {
	return &fairlimit.Trace{
		Entered:    b.entered,
		Left:       b.left,
		Granted:    func(permits int, _ time.Duration) { b.meter.Permits(Granted, permits) },
		Reserved:   b.reserves,
		Unreserved: b.unreserves,
		Refused:    func(permits int, err error) { b.meter.Permits(outcomeOf(err), permits) },
		Taken: func(permits int, lateness time.Duration, _ bool) {
			b.meter.Permits(Taken, permits)
			b.meter.Woke(lateness)
		},
		Missed: func(permits int, lateness time.Duration) {
			b.meter.Permits(Missed, permits)
			b.meter.Woke(lateness)
		},
		GivenBack: func(permits int, err error) {
			if err == nil {
				b.meter.Permits(GivenBack, permits)
			}
		},
		Settled:  b.meter.Settled,
		Asked:    b.asked,
		Paused:   b.pauses,
		Lost:     b.meter.Lost,
		FellBack: b.fellBack,
	}
}

func (b *Books) entered(permits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers++
	b.permits += permits
}

func (b *Books) left(permits int, waited time.Duration, err error) {
	b.mu.Lock()
	b.callers--
	b.permits -= permits
	b.mu.Unlock()
	if err == nil {
		b.meter.Waited(waited)
	}
}

func (b *Books) reserves(permits int, slot time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved.drop(time.Now())
	b.reserved.add(permits, slot)
}

func (b *Books) unreserves(permits int, slot time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved.remove(permits, slot)
}

func (b *Books) asked(op string, callers int, _ time.Duration, err error) {
	b.meter.Asked(op, err != nil)
	if op == "take" {
		b.meter.Shared(callers)
	}
	if err != nil || op != "pause" && op != "reset" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unrecorded = false
	if op == "reset" {
		b.pausedUntil = time.Time{}
	}
}

func (b *Books) pauses(d time.Duration) {
	b.meter.Paused()
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := time.Now().Add(d); until.After(b.pausedUntil) {
		b.pausedUntil = until
	}
	b.unrecorded = true
}

func (b *Books) fellBack(because error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.degraded = because != nil
}

// Watch lets every look ask l for its Status; nil ends that.
func (b *Books) Watch(l fairlimit.Limiter) {
	if l == nil {
		b.watched.Store(nil)
		return
	}
	b.watched.Store(&l)
}

// Reading is how things stand at one look.
type Reading struct {
	CallersWaiting int
	PermitsAhead   int
	PauseRemaining time.Duration
	Degraded       bool
	StatusFailures int64

	// Status is nil if no limiter is watched, or if it did not answer.
	Status *fairlimit.Status
}

// Read looks. It takes [StatusBound] at most.
func (b *Books) Read(ctx context.Context) Reading {
	status := b.status(ctx)
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved.drop(now)
	return Reading{
		CallersWaiting: b.callers, PermitsAhead: b.permits + b.reserved.permits,
		PauseRemaining: b.pauseRemaining(now, status), Degraded: b.degraded,
		StatusFailures: b.failures.Load(), Status: status,
	}
}

// pauseRemaining, under mu, is what Redis says, which knows of the pauses and
// the resets of others too, unless it may not have heard of our own pause.
func (b *Books) pauseRemaining(now time.Time, status *fairlimit.Status) time.Duration {
	own := max(0, b.pausedUntil.Sub(now))
	switch {
	case status == nil:
		return own
	case b.unrecorded:
		return max(own, status.Paused)
	}
	return status.Paused
}

// status asks the limiter that is watched, nil if it does not answer.
func (b *Books) status(ctx context.Context) *fairlimit.Status {
	l := b.watched.Load()
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, StatusBound)
	defer cancel()
	status, err := (*l).Status(ctx)
	if err != nil {
		b.failures.Add(1)
		return nil
	}
	return &status
}

// outcomeOf is what became of a caller that got an error.
func outcomeOf(err error) Outcome {
	var refused *fairlimit.RefusedError
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case errors.As(err, &refused), is(fairlimit.ErrTooManyQueued), is(fairlimit.ErrFull), is(fairlimit.ErrMissed):
		return Refused
	case is(fairlimit.ErrUnreachable), is(fairlimit.ErrOutcomeUnknown): // even if by a timeout on the way
		return Failed
	case is(fairlimit.ErrReservationOver), is(context.Canceled), is(context.DeadlineExceeded):
		return Left
	}
	return Failed
}
