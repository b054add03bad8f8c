package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/engine"
)

// answering is an engine whose answers take a second.
type answering struct {
	engineOfQueue
	grants []engine.Answer
	fails  error
}

func (a *answering) Take(context.Context, []engine.Request) ([]engine.Answer, error) {
	time.Sleep(time.Second)
	return a.grants, a.fails
}

func (a *answering) GiveBack(context.Context, []engine.Grant) error { return nil }

func TestAnAccountIsSettledOnceAllIsAnsweredAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		granted := []engine.Answer{{Granted: true}}
		for _, c := range []struct {
			kind      string
			engine    answering
			givesBack bool
			settled   bool
			after     time.Duration
		}{
			{"refused", answering{grants: []engine.Answer{{}}}, false, true, time.Second},
			{"not reached", answering{fails: engine.ErrUnreachable}, false, true, time.Second},
			{"no answer", answering{fails: engine.ErrOutcomeUnknown}, false, false, time.Second},
			{"given back", answering{grants: granted}, true, true, time.Second},
			{"kept", answering{grants: granted}, false, false, 2 * time.Second},
		} {
			a := account{engineOfQueue: &c.engine}
			go func() {
				answers, _ := a.Take(t.Context(), make([]engine.Request, 1))
				for range answers {
					if c.givesBack {
						_ = a.GiveBack(t.Context(), make([]engine.Grant, 1))
					}
				}
			}()
			synctest.Wait()
			start := time.Now()
			assert.Equal(t, c.settled, a.settle(2*time.Second), c.kind)
			assert.InDelta(t, c.after, time.Since(start), float64(time.Millisecond), c.kind)
		}
	})
}
