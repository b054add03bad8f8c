package fairlimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	silenceBound  = time.Second // a question without an answer for longer has failed
	probeInterval = time.Second // from a failure to when Redis is asked again
)

var errSilent = fmt.Errorf("%w: no answer within %v", ErrOutcomeUnknown, silenceBound)

// outage knows whether Redis is to be asked.
//
// Invariant, under mu. While why is nil, everybody asks, and leave is open. failed sets why and closes leave: those who wait for an answer go,
// and nobody asks but for what admit does. At most one goroutine probes, and only while why is set. After a probe that was answered, one caller is
// admitted: leave is a new channel then, which its trial closes if Redis fails or is silent, and which stays if it answers, and why is nil again.
// Questions are numbered as they begin: one that fails after a later one was answered tells nothing.
type outage struct {
	engine engine.Engine

	mu       sync.Mutex
	why      error
	leave    chan struct{}
	next     time.Time // neither probe nor trial before
	probing  bool
	answers  bool        // to the last probe, and nobody has tried since
	trial    *time.Timer // ends a trial that gets no answer, perhaps because its question is still behind another
	asked    int
	answered int // the number of the latest that was
}

func newOutage(e engine.Engine) *outage { return &outage{engine: e, leave: make(chan struct{})} }

// admit returns nil to those who may ask Redis. To all others it says why not, at once.
func (o *outage) admit() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil {
		return nil
	}
	if now := time.Now(); !o.probing && !now.Before(o.next) {
		if o.answers {
			o.try(now)
			return nil
		}
		o.probing = true
		go o.probe()
	}
	return o.notAsked()
}

func (o *outage) notAsked() error {
	return fmt.Errorf("%w, nothing was sent: it has failed before: %v", ErrUnreachable, o.why)
}

// shut says why not to those who were admitted before Redis failed and who have not been asked for yet.
func (o *outage) shut() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.leave:
		return o.notAsked()
	default:
		return nil
	}
}

func (o *outage) try(now time.Time) {
	o.answers, o.next, o.leave = false, now.Add(probeInterval), make(chan struct{})
	leave := o.leave
	o.trial = time.AfterFunc(silenceBound, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.why != nil && o.leave == leave {
			o.fail(errSilent)
		}
	})
}

// probe reads, so that nothing is consumed where the answer is lost. Where the client has no timeouts, it lasts until the connection breaks: no
// second one is begun on top of it.
func (o *outage) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), answerBound)
	defer cancel()
	_, err := o.engine.Status(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probing, o.answers = false, err == nil
	if err != nil {
		o.next = time.Now().Add(probeInterval)
	}
}

// leaving is closed when those who wait for an answer are to leave.
func (o *outage) leaving() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leave
}

func (o *outage) cause() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil { // Redis has answered since
		return errSilent
	}
	return o.why
}

// watch begins a question; over tells how it ended. One that heals ends an outage, unless it failed.
func (o *outage) watch(heals bool) (over func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	number := o.asked
	silent := time.AfterFunc(silenceBound, func() { o.failed(number, errSilent) })
	return func(err error) {
		silent.Stop()
		switch {
		case fails(err):
			o.failed(number, err)
		case heals:
			o.heal(number)
		}
	}
}

func (o *outage) failed(number int, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if number > o.answered {
		o.fail(why)
	}
}

func (o *outage) fail(why error) {
	o.endTrial()
	o.why, o.answers, o.next = why, false, time.Now().Add(probeInterval)
	select {
	case <-o.leave:
	default:
		close(o.leave)
	}
}

func (o *outage) heal(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered = max(o.answered, number)
	if o.why == nil {
		return
	}
	o.endTrial()
	o.why = nil
	select {
	case <-o.leave:
		o.leave = make(chan struct{})
	default:
	}
}

func (o *outage) endTrial() {
	if o.trial != nil {
		o.trial.Stop()
		o.trial = nil
	}
}

// watched is an engine whose questions tell an outage how they end. What can be given back does not show that anything can be granted: only Take heals.
type watched struct {
	engine.Engine
	outage *outage
}

func (w watched) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	if err := w.outage.shut(); err != nil {
		return nil, err
	}
	over := w.outage.watch(true)
	answers, err := w.Engine.Take(ctx, requests)
	verdict := err
	for _, a := range answers {
		if fails(a.Err) {
			verdict = a.Err
		}
	}
	over(verdict)
	return answers, err
}

func (w watched) GiveBack(ctx context.Context, grants []engine.Grant) error {
	over := w.outage.watch(false)
	err := w.Engine.GiveBack(ctx, grants)
	over(err)
	return err
}
