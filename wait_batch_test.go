package fairlimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

func TestCallersWhoComeDuringACallGoTogetherInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		errs := lineUp(t.Context(), l, 1, 6)
		first := <-e.calls
		assert.Equal(t, []int{1}, first.permits(), "an idle limiter waits for nobody")
		first.grants(1)
		next := <-e.calls
		assert.Equal(t, []int{2, 3, 4, 5, 6}, next.permits(), "in the order in which they called")
		next.grants(5)
		for range 6 {
			require.NoError(t, <-errs)
		}
	}) // a bubble does not end while a goroutine is left
}

func TestWhatAnEngineLeavesUnansweredStaysInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		lineUp(t.Context(), l, 2, 5)
		first.grants(1)
		second := <-e.calls
		lineUp(t.Context(), l, 6, 7)
		second.grants(2)
		third := <-e.calls
		assert.Equal(t, []int{4, 5, 6, 7}, third.permits())
		third.grants(4)
	})
}

func TestACallIsNotEndedByThoseWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		leaving := lineUp(ctx, l, 1, 1)
		staying := lineUp(t.Context(), l, 2, 2)
		first := <-e.calls
		cancel()
		require.ErrorIs(t, <-leaving, context.Canceled)
		require.NoError(t, first.ctx.Err(), "nobody's ctx ends the call")
		assert.Equal(t, "value", first.ctx.Value(key{}))
		_, bounded := first.ctx.Deadline()
		assert.True(t, bounded, "but it has a bound of its own")

		first.grants(1)
		second := <-e.calls
		second.grants(1)
		require.NoError(t, <-staying)
		assert.Equal(t, []engine.Grant{{ID: "grant", N: 1, Unused: true}}, e.givenBack(),
			"what was granted to the one who left, once")
	})
}

func TestThoseWhoLeaveTheLineAreNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		ctx, cancel := context.WithCancel(t.Context())
		leaving := lineUp(ctx, l, 2, 3)
		lineUp(t.Context(), l, 4, 4)
		alsoLeaving := lineUp(ctx, l, 5, 5)
		cancel()
		require.ErrorIs(t, <-leaving, context.Canceled)
		require.ErrorIs(t, <-leaving, context.Canceled)
		require.ErrorIs(t, <-alsoLeaving, context.Canceled)
		first.grants(1)
		second := <-e.calls
		assert.Equal(t, []int{4}, second.permits())
		second.grants(1)
		synctest.Wait()
		assert.Empty(t, e.givenBack())
	})
}

func TestWhenAllLeaveTheLineNothingIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		ctx, cancel := context.WithCancel(t.Context())
		lineUp(ctx, l, 2, 9)
		cancel()
		synctest.Wait()
		first.grants(1)
		synctest.Wait()
		select {
		case c := <-e.calls:
			t.Fatalf("asked for %v", c.permits())
		default:
		}
	})
}

func TestAnErrorReachesAllWhoWereAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		errs := lineUp(t.Context(), l, 2, 4)
		first.grants(1)
		boom := errors.New("boom")
		(<-e.calls).fails(boom)
		for range 3 {
			require.ErrorIs(t, <-errs, boom)
		}
		again := lineUp(t.Context(), l, 5, 5)
		(<-e.calls).grants(1)
		require.NoError(t, <-again, "an error does not end the limiter")
	})
}

func TestAnAnswersErrorReachesItsCallerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		second, third := lineUp(t.Context(), l, 2, 2), lineUp(t.Context(), l, 3, 3)
		first.grants(1)
		(<-e.calls).answers(engine.Answer{Err: engine.ErrExceedsQuota}, granted(0, 3))
		require.ErrorIs(t, <-second, fairlimit.ErrExceedsQuota)
		require.NoError(t, <-third)
	})
}

func TestAnEngineThatAnswersTheWrongNumberIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		for _, answers := range [][]engine.Answer{{}, {granted(0, 1), granted(0, 1)}} {
			errs := lineUp(t.Context(), l, 1, 1)
			(<-e.calls).answers(answers...)
			require.Error(t, <-errs)
		}
	})
}

func TestAnEngineThatNeverAnswersHoldsItsCallersForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 1)
		stuck := <-e.calls
		err := <-errs
		require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "nobody's deadline has passed")
		require.LessOrEqual(t, time.Since(start), 5*time.Second)

		next := lineUp(t.Context(), l, 2, 2)
		(<-e.calls).grants(1)
		require.NoError(t, <-next, "and then the others go on")
		stuck.grants(1)
		synctest.Wait()
		assert.Equal(t, []engine.Grant{{ID: "grant", N: 1, Unused: true}}, e.givenBack(),
			"what comes too late goes back")
	})
}

func TestAnAnswerThatComesTooLateReachesNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		late := lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		lineUp(t.Context(), l, 2, 5)
		first.grants(1)
		require.NoError(t, <-late)
		stuck := <-e.calls
		next := lineUp(t.Context(), l, 6, 9)
		time.Sleep(6 * time.Second) // the next question is under way

		current := <-e.calls
		newest := lineUp(t.Context(), l, 10, 13)
		stuck.answers(granted(0, 2), granted(time.Hour, 3), refused(time.Hour),
			engine.Answer{Err: engine.ErrExceedsQuota})
		synctest.Wait()
		assert.Empty(t, next)
		assert.Empty(t, newest)
		current.grants(4)
		(<-e.calls).grants(4)
		for range 4 {
			require.NoError(t, <-next)
			require.NoError(t, <-newest)
		}
		synctest.Wait()
		assert.Equal(t, []engine.Grant{
			{ID: "grant", N: 2, Unused: true},
			{ID: "grant", At: int64(time.Hour), N: 3, Unused: true},
		}, e.givenBack())
	})
}

func TestNobodyInABatchHoldsUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		far := lineUp(t.Context(), l, 1_000_000, 1_000_000)
		tooMuch, never := lineUp(t.Context(), l, 2, 2), lineUp(t.Context(), l, 3, 3)
		ctx, cancel := context.WithCancel(t.Context())
		leaving := lineUp(ctx, l, 4, 4)
		others := lineUp(t.Context(), l, 5, 9)
		first.grants(1)
		batch := <-e.calls
		cancel()
		require.ErrorIs(t, <-leaving, context.Canceled)
		start := time.Now()
		batch.answers(
			granted(time.Hour, 1_000_000), refused(time.Hour), engine.Answer{Err: engine.ErrExceedsQuota},
			granted(0, 4), granted(0, 5), granted(0, 6), granted(0, 7), granted(0, 8), granted(0, 9),
		)
		for range 5 {
			require.NoError(t, <-others)
		}
		require.ErrorAs(t, <-tooMuch, new(*fairlimit.RefusedError))
		require.ErrorIs(t, <-never, fairlimit.ErrExceedsQuota)
		assert.Zero(t, time.Since(start))
		require.NoError(t, <-far)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

// fickle is an engine that refuses what leaves 1 when divided by 3, fails for
// what leaves 2, answers as few as it likes, and counts.
type fickle struct {
	stub
	permits atomic.Int64 // granted and not given back
}

func (f *fickle) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers := make([]engine.Answer, 1+rand.IntN(len(requests)))
	for i := range answers {
		switch n := requests[i].N; n % 3 {
		case 0:
			answers[i] = granted(0, n)
			f.permits.Add(int64(n))
		case 1:
			answers[i] = refused(time.Duration(n))
		case 2:
			answers[i] = engine.Answer{Err: engine.ErrExceedsQuota}
		}
	}
	runtime.Gosched()
	return answers, nil
}

func (f *fickle) GiveBack(_ context.Context, grants []engine.Grant) error {
	for _, g := range grants {
		f.permits.Add(-int64(g.N))
	}
	return nil
}

func TestEveryCallerGetsItsOwnAnswer(t *testing.T) {
	f := &fickle{stub: stub{queues: true}}
	l, err := fairlimit.New(nowhere(t), "fickle", fairlimit.PerSecond(1),
		fairlimit.WithEngine(func(engine.Config) (engine.Engine, error) { return f, nil }))
	require.NoError(t, err)
	var went atomic.Int64
	var wg sync.WaitGroup
	for caller := range 64 {
		wg.Go(func() {
			for i := range 200 {
				ctx := context.Background()
				if caller%2 == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(t.Context())
					defer time.AfterFunc(time.Duration(rand.IntN(200))*time.Microsecond, cancel).Stop()
				}
				n := 1 + caller*1000 + i
				err := l.WaitN(ctx, n)
				if err == nil {
					went.Add(int64(n))
				}
				var refused *fairlimit.RefusedError
				switch {
				case ctx.Err() != nil && errors.Is(err, context.Canceled):
				case n%3 == 0:
					assert.NoError(t, err)
				case n%3 == 1 && assert.ErrorAs(t, err, &refused):
					assert.Equal(t, time.Duration(n), refused.Wait)
				case n%3 == 2:
					assert.ErrorIs(t, err, fairlimit.ErrExceedsQuota)
				}
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { return f.permits.Load() == went.Load() }, 10*time.Second, time.Millisecond,
		"what nobody went with should be back")
}
