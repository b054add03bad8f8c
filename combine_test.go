package fairlimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

// lineUp lets callers for 1, 2, … n permits call one after the other, and returns their errors in the order in which they return.
func lineUp(ctx context.Context, l fairlimit.Limiter, from, to int) <-chan error {
	errs := make(chan error, to-from+1)
	for n := from; n <= to; n++ {
		go func() { errs <- l.WaitN(ctx, n) }()
		synctest.Wait()
	}
	return errs
}

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
		assert.Equal(t, []engine.Grant{{ID: "grant", N: 1, Unused: true}}, e.givenBack(), "what was granted to the one who left, once")
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
	})
}

func TestTheTimeInLineCountsAgainstTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		errs := lineUp(ctx, l, 2, 2)
		time.Sleep(time.Second)
		first.grants(1)
		second := <-e.calls
		assert.Equal(t, 2*time.Second, second.requests[0].MaxWait)
		second.grants(1)
		require.NoError(t, <-errs)
	})
}

func TestAGrantThatComesTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		errs := lineUp(ctx, l, 1, 1)
		c := <-e.calls
		time.Sleep(time.Second)
		c.answers(granted(2500*time.Millisecond, 1))
		err := <-errs
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, 2500*time.Millisecond, refused.Wait)
		assert.Equal(t, time.Second, time.Since(start), "it is refused as soon as it is known to be late")
		assert.Len(t, e.givenBack(), 1)
	})
}

func TestARefusalThatComesTooLateIsNotSleptOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		e.queues = false
		l := e.limiter(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		errs := lineUp(ctx, l, 1, 1)
		c := <-e.calls
		time.Sleep(time.Second)
		c.answers(refused(2500 * time.Millisecond))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestWhoIsRefusedForNowSleepsAndAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		e.queues = false
		l := e.limiter(t, fairlimit.WithMaxWait(10*time.Second))
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(refused(4 * time.Second))
		again := <-e.calls
		assert.Equal(t, 4*time.Second, time.Since(start))
		assert.Equal(t, 6*time.Second, again.requests[0].MaxWait, "what is left of its patience")
		again.answers(refused(7 * time.Second))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		assert.Equal(t, 4*time.Second, time.Since(start))
	})
}
