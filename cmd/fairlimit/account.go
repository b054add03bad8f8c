package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// account is an engine that keeps count of what a caller that leaves leaves
// behind: questions that have no answer yet, and turns that were granted and
// have not been given back. The process must not end before they are, or these
// turns pass unused.
type account struct {
	engine.Steerer

	mu      sync.Mutex
	open    int
	unknown bool          // a question had no answer, so nobody knows what it granted
	settled chan struct{} // closed once nothing is open; nil if nobody waits for that
}

// build is an engine.Builder.
func (a *account) build(cfg engine.Config) (engine.Engine, error) {
	e, err := fair.New(cfg)
	if err != nil {
		return nil, err
	}
	a.Steerer = e.(engine.Steerer)
	return a, nil
}

func (a *account) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	a.add(1, nil)
	answers, err := a.Steerer.Take(ctx, requests)
	granted := 0
	for _, answer := range answers {
		if answer.Granted {
			granted++
		}
	}
	a.add(granted-1, err)
	return answers, err
}

// GiveBack settles even what it fails to give back: it is not tried again.
func (a *account) GiveBack(ctx context.Context, grants []engine.Grant) error {
	err := a.Steerer.GiveBack(ctx, grants)
	a.add(-len(grants), err)
	return err
}

// add changes how much is open, by a question that ended with err if it has.
func (a *account) add(n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open += n
	a.unknown = a.unknown || errors.Is(err, engine.ErrOutcomeUnknown)
	if a.open == 0 && a.settled != nil {
		close(a.settled)
		a.settled = nil
	}
}

// settle is for one who leaves without a turn. It returns when nothing is open
// any more, or after d, and reports whether all was answered by then.
func (a *account) settle(d time.Duration) bool {
	select {
	case <-a.nothingOpen():
	case <-time.After(d):
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open == 0 && !a.unknown
}

func (a *account) nothingOpen() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	settled := make(chan struct{})
	if a.open == 0 {
		close(settled)
	} else {
		a.settled = settled
	}
	return settled
}
