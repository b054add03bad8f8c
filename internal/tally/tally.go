// Package tally keeps the books from which modules promlimit and otellimit make
// metrics: which metrics there are, what each event of a trace means for them,
// and how things stand when somebody looks.
package tally

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
	Waited(d time.Duration)       // into [WaitDuration]
	Permits(o Outcome, n int)     // into [Permits]
	Woke(lateness time.Duration)  // into [WakeLateness]
	Asked(op string, failed bool) // into [Questions]
	Shared(callers int)           // into [QuestionCallers]
	Paused()                      // into [Pauses]
	Lost()                        // into [Losses]
}

// Tally is the books of one limiter. Make it with [New].
type Tally struct {
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
func New(m Meter) *Tally { return &Tally{meter: m} }

// Trace is what a limiter has to tell.
func (t *Tally) Trace() *fairlimit.Trace {
	return &fairlimit.Trace{
		Entered:    t.entered,
		Left:       t.left,
		Granted:    func(permits int, _ time.Duration) { t.meter.Permits(Granted, permits) },
		Reserved:   t.reserves,
		Unreserved: t.unreserves,
		Refused:    func(permits int, err error) { t.meter.Permits(outcomeOf(err), permits) },
		Taken: func(permits int, lateness time.Duration, _ bool) {
			t.meter.Permits(Taken, permits)
			t.meter.Woke(lateness)
		},
		Missed: func(permits int, lateness time.Duration) {
			t.meter.Permits(Missed, permits)
			t.meter.Woke(lateness)
		},
		GivenBack: func(permits int, err error) {
			if err == nil {
				t.meter.Permits(GivenBack, permits)
			}
		},
		Asked:    t.asked,
		Paused:   t.pauses,
		Lost:     t.meter.Lost,
		FellBack: t.fellBack,
	}
}

func (t *Tally) entered(permits int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.callers++
	t.permits += permits
}

func (t *Tally) left(permits int, waited time.Duration, err error) {
	t.mu.Lock()
	t.callers--
	t.permits -= permits
	t.mu.Unlock()
	if err == nil {
		t.meter.Waited(waited)
	}
}

func (t *Tally) reserves(permits int, slot time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved.drop(time.Now())
	t.reserved.add(permits, slot)
}

func (t *Tally) unreserves(permits int, slot time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved.remove(permits, slot)
}

func (t *Tally) asked(op string, callers int, _ time.Duration, err error) {
	t.meter.Asked(op, err != nil)
	if op == "take" {
		t.meter.Shared(callers)
	}
	if err != nil || op != "pause" && op != "reset" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unrecorded = false
	if op == "reset" {
		t.pausedUntil = time.Time{}
	}
}

func (t *Tally) pauses(d time.Duration) {
	t.meter.Paused()
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := time.Now().Add(d); until.After(t.pausedUntil) {
		t.pausedUntil = until
	}
	t.unrecorded = true
}

func (t *Tally) fellBack(because error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.degraded = because != nil
}

// Watch lets every look ask l for its Status; nil ends that.
func (t *Tally) Watch(l fairlimit.Limiter) {
	if l == nil {
		t.watched.Store(nil)
		return
	}
	t.watched.Store(&l)
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
func (t *Tally) Read(ctx context.Context) Reading {
	status := t.status(ctx)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved.drop(now)
	return Reading{
		CallersWaiting: t.callers, PermitsAhead: t.permits + t.reserved.permits,
		PauseRemaining: t.pauseRemaining(now, status), Degraded: t.degraded,
		StatusFailures: t.failures.Load(), Status: status,
	}
}

// pauseRemaining, under mu, is what Redis says, which knows of the pauses and
// the resets of others too, unless it may not have heard of our own pause.
func (t *Tally) pauseRemaining(now time.Time, status *fairlimit.Status) time.Duration {
	own := max(0, t.pausedUntil.Sub(now))
	switch {
	case status == nil:
		return own
	case t.unrecorded:
		return max(own, status.Paused)
	}
	return status.Paused
}

// status asks the limiter that is watched, nil if it does not answer.
func (t *Tally) status(ctx context.Context) *fairlimit.Status {
	l := t.watched.Load()
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, StatusBound)
	defer cancel()
	status, err := (*l).Status(ctx)
	if err != nil {
		t.failures.Add(1)
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
