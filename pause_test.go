package fairlimit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

// steered is a stub whose queue can be paused: each pause takes a while, and
// may fail.
type steered struct {
	stub
	takes time.Duration
	fails error

	mu     sync.Mutex
	pauses []time.Duration
}

func newSteered(t testing.TB, opts ...fairlimit.Option) (*steered, *fairlimit.Queue) {
	s := &steered{stub: stub{queues: true, calls: make(chan *call)}, takes: 10 * time.Millisecond}
	build := func(engine.Config) (engine.Engine, error) { return s, nil }
	opts = append(opts, fairlimit.WithEngine(build))
	q, err := fairlimit.NewQueue(nowhere(t), "steered", fairlimit.PerSecond(1), opts...)
	require.NoError(t, err)
	return s, q
}

func (s *steered) Look(context.Context) error { return errors.New("nobody looks") }

func (s *steered) Pause(_ context.Context, d time.Duration) error {
	s.mu.Lock()
	s.pauses = append(s.pauses, d)
	s.mu.Unlock()
	time.Sleep(s.takes)
	return s.fails
}

func (s *steered) Quotas(context.Context) ([]engine.Quota, bool, error) { return nil, false, nil }
func (s *steered) SetQuotas(context.Context, []engine.Quota) error      { return nil }

func (s *steered) sent() []time.Duration {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pauses)
}

func TestAStormOfPausesIsAFewQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		var all sync.WaitGroup
		for range 20 {
			for _, d := range []time.Duration{3, 30, 5} {
				all.Go(func() { assert.NoError(t, q.Pause(t.Context(), d*time.Second)) })
			}
		}
		all.Wait()
		sent := s.sent()
		require.LessOrEqual(t, len(sent), 2)
		assert.Equal(t, 30*time.Second, slices.Max(sent).Round(time.Second))
	})
}

func TestAPauseIsAtLeastTwiceX(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t, fairlimit.WithPauseWithin(3*time.Second))
		require.NoError(t, q.Pause(t.Context(), time.Second))
		assert.Equal(t, []time.Duration{6 * time.Second}, s.sent())
	})
}

func TestALaterPauseIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		time.Sleep(time.Second)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second), "it may have been reset meanwhile")
		assert.Len(t, s.sent(), 2)
	})
}

func TestAPauseHoldsItsOwnProcessWhateverRedisDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		s.fails = engine.ErrUnreachable
		start := time.Now()
		errs := lineUp(t.Context(), q, 1, 1)
		(<-s.calls).answers(granted(5*time.Second, 1))
		synctest.Wait()
		require.ErrorIs(t, q.Pause(t.Context(), time.Minute), fairlimit.ErrUnreachable)

		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed, "without a question")

		again := <-s.calls // its turn has passed, so it asks once more
		assert.GreaterOrEqual(t, time.Since(start), time.Minute)
		again.answers(granted(0, 1))
		require.NoError(t, <-errs)
		assert.Len(t, s.givenBack(), 1)
	})
}

func TestResetEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		require.NoError(t, q.Pause(t.Context(), time.Hour))
		require.NoError(t, q.Reset(t.Context()))
		errs := lineUp(t.Context(), q, 1, 1)
		(<-s.calls).answers(granted(0, 1))
		require.NoError(t, <-errs)
	})
}

func TestADeadlineThatAPauseMakesImpossibleIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		errs := lineUp(ctx, q, 1, 1)
		(<-s.calls).answers(granted(5*time.Second, 1))
		synctest.Wait()
		start := time.Now()
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		err := <-errs
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, fairlimit.ErrPaused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(start), 50*time.Millisecond)
		assert.Len(t, s.givenBack(), 1)
	})
}

func TestARefusalSaysWhetherAPauseIsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t, fairlimit.WithMaxWait(10*time.Second))
		for _, c := range []struct {
			wait, paused time.Duration
			because      bool
		}{
			{20 * time.Second, 0, false},
			{20 * time.Second, 15 * time.Second, true},
			{20 * time.Second, 5 * time.Second, false},
		} {
			errs := lineUp(t.Context(), q, 1, 1)
			(<-s.calls).answers(engine.Answer{Wait: c.wait, Paused: c.paused})
			err := <-errs
			assert.Equal(t, c.because, errors.Is(err, fairlimit.ErrPaused), "%+v", c)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}

func TestAPauseOutOfRangeIsAnError(t *testing.T) {
	s, q := newSteered(t)
	for _, d := range []time.Duration{0, -time.Second, 366 * 24 * time.Hour} {
		require.ErrorIs(t, q.Pause(t.Context(), d), fairlimit.ErrInvalidPause)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Pause(ended, time.Second), context.Canceled)
	assert.Empty(t, s.pauses)
}

func TestAnEngineThatCannotBeSteeredSaysSo(t *testing.T) {
	_, l := newStub(t)
	q := l.(*fairlimit.Queue)
	require.ErrorIs(t, q.Pause(t.Context(), time.Second), fairlimit.ErrUnsupported)
	require.ErrorIs(t, q.SetQuotas(t.Context(), fairlimit.PerSecond(1)), fairlimit.ErrUnsupported)
	require.ErrorIs(t, q.ForgetQuotas(t.Context()), fairlimit.ErrUnsupported)
	_, _, err := q.Quotas(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
}
