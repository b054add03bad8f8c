// Package metrics keeps the books from which modules promlimit and otellimit make
// metrics: which metrics there are, what each event of a trace means for them,
// and how things stand when somebody looks.
package metrics

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

// StatusBound is how long one look may wait for the Status of a limiter.
const StatusBound = time.Second

// Meter takes what is counted as it happens. Its methods are called by many
// goroutines at once.
type Meter interface {
	Add(m *Metric, n int, labels ...string)
	Record(m *Metric, value float64)
}

// Books is the books of one limiter. Make it with [New].
type Books struct {
	meter Meter

	mu          sync.Mutex
	watched     fairlimit.Limiter // nil: none
	failures    int               // looks that got no Status
	callers     int               // between Entered and Left
	pausedUntil time.Time         // by this limiter
	degraded    bool
}

// New makes the books whose counts go to a meter.
func New(m Meter) *Books { return &Books{meter: m} }

// Trace is what a limiter has to tell.
func (b *Books) Trace() *fairlimit.Trace {
	woke := func(outcome string, n int, lateness time.Duration) {
		b.meter.Add(permits, n, outcome)
		b.meter.Record(wakeLateness, lateness.Seconds())
	}
	return &fairlimit.Trace{
		Entered: func(int) { b.enter(1) },
		Left: func(_ int, waited time.Duration, err error) {
			b.enter(-1)
			if err == nil {
				b.meter.Record(waitDuration, waited.Seconds())
			}
		},
		Granted: func(n int, _ time.Duration) { b.meter.Add(permits, n, "granted") },
		Refused: func(n int, err error) { b.meter.Add(permits, n, outcomeOf(err)) },
		Taken:   func(n int, lateness time.Duration, _ bool) { woke("taken", n, lateness) },
		Missed:  func(n int, lateness time.Duration) { woke("missed", n, lateness) },
		GivenBack: func(n int, err error) {
			if err == nil {
				b.meter.Add(permits, n, "given_back")
			}
		},
		Settled:  b.settles,
		Asked:    b.asked,
		Paused:   b.pauses,
		Lost:     func() { b.meter.Add(losses, 1) },
		FellBack: b.fellBack,
	}
}

// enter counts callers that come, or leave.
func (b *Books) enter(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers += n
}

func (b *Books) settles(unit string, reserved, used int) {
	b.meter.Add(settled, reserved, unit, "reserved")
	b.meter.Add(settled, used, unit, "used")
	b.meter.Add(settled, max(0, reserved-used), unit, "refund")
	b.meter.Add(settled, max(0, used-reserved), unit, "debt")
}

func (b *Books) asked(op string, callers int, _ time.Duration, err error) {
	b.meter.Add(questions, 1, op, strconv.FormatBool(err != nil))
	if op == "take" {
		b.meter.Record(questionCallers, float64(callers))
	}
	if err == nil && (op == "reset" || op == "resume") {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.pausedUntil = time.Time{}
	}
}

func (b *Books) pauses(d time.Duration) {
	b.meter.Add(pauses, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := time.Now().Add(d); until.After(b.pausedUntil) {
		b.pausedUntil = until
	}
}

func (b *Books) fellBack(because error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.degraded = because != nil
}

// Watch lets every look ask l for its Status; nil ends that.
func (b *Books) Watch(l fairlimit.Limiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = l
}

// Look tells how things stand, each metric with the values of its labels. It takes
// [StatusBound] at most. What only Redis knows is left out if no limiter is watched,
// or if that did not answer.
func (b *Books) Look(ctx context.Context, tell func(m *Metric, value float64, labels ...string)) {
	status := b.status(ctx)
	b.mu.Lock()
	callers, failures, pause, fallback := b.callers, b.failures, max(0, time.Until(b.pausedUntil)), 0
	if b.degraded {
		fallback = 1
	}
	b.mu.Unlock()
	tell(callersWaiting, float64(callers))
	tell(degraded, float64(fallback))
	tell(statusFailures, float64(failures))
	if status == nil {
		tell(pauseRemaining, pause.Seconds())
		return
	}
	tell(pauseRemaining, status.Paused.Seconds()) // also of pauses and resets of others
	tell(queuePermits, float64(status.Queued))
	tell(queueDelay, status.Delay.Seconds())
	tell(available, float64(status.Available))
	for unit, s := range status.Units {
		tell(unitQueued, float64(s.Queued), unit)
		tell(unitAvailable, float64(s.Available), unit)
	}
}

// status asks the limiter that is watched, nil if there is none, or no answer.
func (b *Books) status(ctx context.Context) *fairlimit.Status {
	b.mu.Lock()
	l := b.watched
	b.mu.Unlock()
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, StatusBound)
	defer cancel()
	status, err := l.Status(ctx)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.failures++
		return nil
	}
	return &status
}

// outcomeOf is what became of a caller that got an error.
func outcomeOf(err error) string {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case errors.As(err, new(*fairlimit.RefusedError)), is(fairlimit.ErrMissed):
		return "refused"
	case is(fairlimit.ErrUnreachable, fairlimit.ErrOutcomeUnknown): // even if by a timeout on the way
		return "failed"
	case is(fairlimit.ErrReservationOver, context.Canceled, context.DeadlineExceeded):
		return "left"
	case is(fairlimit.ErrInvalidPermits, fairlimit.ErrInvalidAmounts, fairlimit.ErrUnknownUnit, fairlimit.ErrExceedsQuota):
		return "invalid"
	}
	return "failed"
}
