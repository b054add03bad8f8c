// Package breaker is a circuit breaker: it knows whether Redis is to be asked.
//
// # States
//
//	closed    everybody asks
//	open      nobody asks; Redis has failed
//	half-open Redis has answered a read since; whoever asks next is the trial
//	trying    the trial is under way; nobody else comes
//
//	closed    ── failure ──────────────────────▶ open
//	open      ── probe answered ───────────────▶ half-open
//	half-open ── somebody is to ask ───────────▶ trying
//	half-open ── failure ──────────────────────▶ open
//	trying    ── failure, or silence ──────────▶ open
//	any       ── a question to grant answered ─▶ closed
//
// A failure is a question that fails or that has no answer after [Silence]. The
// probe only reads, so nothing is consumed if its answer is lost. It starts
// when a caller comes, [Interval] after the last failure at the earliest; one
// runs at a time. Nothing runs while nobody comes.
//
// A trial is a question, not a caller. In half-open callers come as they like:
// those that are refused without a question, and those that only stand in a
// line, from which nobody is asked for yet. They change nothing, and those in
// line leave if Redis fails again.
package breaker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	// Silence is how long a question may have no answer before it has failed.
	Silence = time.Second

	// Interval is the time from a failure to the next probe.
	Interval = time.Second

	// probeBound is how long a probe may take.
	probeBound = 5 * time.Second
)

var errSilent = fmt.Errorf("%w: no answer within %v", engine.ErrOutcomeUnknown, Silence)

type state int

const (
	closed state = iota
	open
	halfOpen
	trying
)

// Breaker is one circuit breaker. Make it with [New].
//
// Invariant, under mu: opened is a closed channel exactly in the state open. So
// whoever may wait waits on a channel that the next failure closes. Why is nil
// exactly in the state closed. Trial is a running timer, or one that has just
// fired, exactly in the state trying.
type Breaker struct {
	read func(context.Context) error

	// Changed, if it is not nil, is told the failure when Redis is not asked any
	// more, and nil when it is again. It is set before the first call.
	Changed func(failure error)

	mu      sync.Mutex
	state   state
	opened  chan struct{}
	why     error       // the last failure
	next    time.Time   // no probe before
	probing bool        // one probe at a time, even if Redis fails again meanwhile
	trial   *time.Timer // ends a trial that is silent, perhaps behind another question

	// Questions are numbered as they begin. One that fails after a later one
	// was answered is no news.
	asked    int
	answered int
}

// New makes a closed breaker. Read asks Redis for something that changes
// nothing.
func New(read func(context.Context) error) *Breaker {
	return &Breaker{read: read, opened: make(chan struct{})}
}

// Admit says at once why not to callers that are not to come. To those that may
// come it returns nil. It is [Breaker.Try] that lets them ask.
func (b *Breaker) Admit() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case closed, halfOpen:
		return nil
	case open:
		if !b.probing && !time.Now().Before(b.next) {
			b.probing = true
			go b.probe()
		}
	}
	return b.notAsked()
}

// Try is for a caller whose question goes next. One of them is the trial. It
// says why not to those that come while there is one, and while Redis fails.
func (b *Breaker) Try() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case closed:
		return nil
	case halfOpen:
		b.try()
		return nil
	}
	return b.notAsked()
}

// Check is for a question that is about to go. It says why not if Redis has
// failed since its callers came. If nobody has tried yet, the question is the
// trial: its callers stood in line before.
func (b *Breaker) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case open:
		return b.notAsked()
	case halfOpen:
		b.try()
	}
	return nil
}

// Opened is closed when callers that wait, in line or for an answer, are to
// leave.
func (b *Breaker) Opened() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}

// Cause is why Redis is not asked.
func (b *Breaker) Cause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == closed { // it has answered since
		return errSilent
	}
	return b.why
}

// Begin counts a question and watches for silence until end is called with its
// failure, or nil. An answer closes the breaker if heals says so: an answer to
// a question of another kind does not show that anything can be granted.
func (b *Breaker) Begin(heals bool) (end func(failure error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	number := b.asked
	silence := time.AfterFunc(Silence, func() { b.failed(number, errSilent) })
	return func(failure error) {
		silence.Stop()
		switch {
		case failure != nil:
			b.failed(number, failure)
		case heals:
			b.healed(number)
		}
	}
}

func (b *Breaker) failed(number int, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if number > b.answered {
		b.fail(why)
	}
}

// tell, under mu, says so if Redis is asked no more, or again.
func (b *Breaker) tell(failure error) {
	if b.Changed != nil && (b.state == closed) == (failure != nil) {
		b.Changed(failure)
	}
}

func (b *Breaker) healed(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = max(b.answered, number)
	if b.state == open {
		b.opened = make(chan struct{})
	}
	b.endTrial()
	b.tell(nil)
	b.state, b.why = closed, nil
}

// try, under mu, begins a trial. Its question may never go, or stand behind one
// that hangs: then silence ends it.
func (b *Breaker) try() {
	b.state = trying
	var trial *time.Timer
	trial = time.AfterFunc(Silence, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.trial == trial {
			b.fail(errSilent)
		}
	})
	b.trial = trial
}

func (b *Breaker) endTrial() {
	if b.trial != nil {
		b.trial.Stop()
		b.trial = nil
	}
}

// fail, under mu, opens the breaker.
func (b *Breaker) fail(why error) {
	if b.state != open {
		close(b.opened)
	}
	b.endTrial()
	b.tell(why)
	b.state, b.why, b.next = open, why, time.Now().Add(Interval)
}

func (b *Breaker) notAsked() error {
	return fmt.Errorf("%w: nothing was sent, because an earlier call had failed (%v)", engine.ErrUnreachable, b.why)
}

// probe reads once. With a client that has no timeouts it lasts until the
// connection breaks, and no second one starts on top of it.
func (b *Breaker) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), probeBound)
	defer cancel()
	err := b.read(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	switch {
	case b.state != open: // decided meanwhile
	case err == nil:
		b.state, b.opened = halfOpen, make(chan struct{})
	default:
		b.next = time.Now().Add(Interval)
	}
}
