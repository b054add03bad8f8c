package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

var errAway = errors.New("away")

// fickle is an engine that can be away. It takes 100 ms to say so.
type fickle struct {
	timed
	mu     sync.Mutex
	err    error
	probes int
	asked  []int // how many permits each request of the last question was for
}

func (f *fickle) is(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fickle) asker() *Asker {
	f.take = 100 * time.Millisecond
	f.answers = func(requests []engine.Request) ([]engine.Answer, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err != nil {
			return nil, f.err
		}
		f.asked = nil
		answers := make([]engine.Answer, len(requests))
		for i, r := range requests {
			f.asked = append(f.asked, r.N)
			answers[i] = engine.Answer{Granted: true, Grant: engine.Grant{N: r.N}, Share: 100}
		}
		return answers, nil
	}
	b := f.timed.asker()
	b.Engine = f
	b.Away = func(err error) bool { return errors.Is(err, errAway) }
	b.Probe = func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.probes++
		return f.err
	}
	return b
}

func TestCallersOfAnEngineThatIsAwayStayInLine(t *testing.T) {
	for name, flow := range map[string]*Line{"no flow": nil, "a flow": NewLine("f", 1, 0)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fickle{err: errAway}
				b := e.asker()
				ask := func(n int, patience time.Duration) <-chan error { return askingIn(b, flow, n, patience) }
				first := ask(1, engine.Forever)
				hasty, second := ask(7, 0), ask(2, engine.Forever)
				start := time.Now()
				require.ErrorIs(t, <-hasty, errAway)
				require.Equal(t, 100*time.Millisecond, time.Since(start), "it lined up behind the question that failed")
				require.ErrorIs(t, <-ask(7, 0), engine.ErrUnreachable)
				third := ask(3, engine.Forever)

				require.NoError(t, b.Return(t.Context(), engine.Grant{N: 9}))
				require.LessOrEqual(t, time.Since(start), 200*time.Millisecond, "a return goes meanwhile")
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.InDelta(t, 3600/0.75, e.probes, 200)
				assert.Len(t, e.log, 2, "one question and one return")

				e.is(nil)
				for _, err := range []<-chan error{first, second, third} {
					require.NoError(t, <-err)
				}
				assert.Equal(t, []int{1, 2, 3}, e.asked, "in the order of the calls")
				if flow == nil {
					idle(t, b)
				}
			})
		})
	}
}

func TestAnotherErrorEndsTheWaitForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fickle{err: errAway}
		b := e.asker()
		errs := asking(t.Context(), b, 1)
		time.Sleep(time.Minute)
		e.is(errGate)
		require.ErrorIs(t, <-errs, errGate)
		idle(t, b)
	})
}

// TestNobodyWaitsForAnEngineInVain has all leave.
func TestNobodyWaitsForAnEngineInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fickle{err: errAway}
		b := e.asker()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		errs := asking(ctx, b, 1)
		err := <-errs
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errAway)
		time.Sleep(lastPause)
		idle(t, b)
	})
}

// The engine was away, and answers no sooner than its caller leaves.
func TestWhoeverLeavesAQuestionThatIsUnderWayMayHoldPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fickle{err: errAway}
		a := e.asker()
		e.take = 3 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		errs := asking(ctx, a, 1)
		time.Sleep(3010 * time.Millisecond)
		e.is(nil)
		err := <-errs
		require.ErrorIs(t, err, engine.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errAway)
		time.Sleep(time.Minute)
		idle(t, a)
	})
}

// The question outlives its caller. On fake time the race detector sees nothing.
func TestWhetherAnAnswerWasLostMayBeReadAtAnyTime(t *testing.T) {
	t.Parallel()
	e := &fickle{}
	a := e.asker()
	r := &Request{Ctx: t.Context(), N: 1, MaxWait: 300 * time.Millisecond, Came: time.Now()}
	require.NoError(t, a.Ask(r))
	e.is(fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, errAway))
	e.take = 500 * time.Millisecond
	a.LineUpAgain([]*Request{r})
	require.ErrorIs(t, a.Ask(r), ErrMaxWait)
	require.Eventually(t, r.Lost, 5*time.Second, time.Millisecond)
}
