package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// account is an engine that keeps count of what a caller that leaves leaves
// behind: questions that have no answer yet, and turns that were granted and
// have not been given back. The process must not end before they are, or these
// turns pass unused.
type account struct {
	engineOfQueue

	open    atomic.Int64
	unknown atomic.Bool // a question had no answer, so nobody knows what it granted
}

// engineOfQueue is what fair is.
type engineOfQueue interface {
	engine.Steerer
	engine.Counter
}

// build is an engine.Builder.
func (a *account) build(cfg engine.Config) (engine.Engine, error) {
	e, err := fair.New(cfg)
	if err != nil {
		return nil, err
	}
	a.engineOfQueue = e.(engineOfQueue)
	return a, nil
}

func (a *account) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	a.add(1, nil)
	answers, err := a.engineOfQueue.Take(ctx, requests)
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
	err := a.engineOfQueue.GiveBack(ctx, grants)
	a.add(-len(grants), err)
	return err
}

// add changes how much is open, by a question that ended with err if it has.
func (a *account) add(n int, err error) {
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		a.unknown.Store(true)
	}
	a.open.Add(int64(n))
}

// settle is for one who leaves without a turn. It returns when nothing is open
// any more, or after d, and reports whether all was answered by then.
func (a *account) settle(d time.Duration) bool {
	for end := time.Now().Add(d); a.open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return a.open.Load() == 0 && !a.unknown.Load()
}
