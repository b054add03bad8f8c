package faults_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// counted is a fallback that counts what it lets through.
type counted struct{ permits atomic.Int64 }

func (c *counted) WaitN(_ context.Context, n int) error {
	c.permits.Add(int64(n))
	return nil
}

// TestAFallbackDecidesNoLongerOnceRedisIsBack has callers come after Redis
// is back, while the turns that were granted before are as many as may be held.
func TestAFallbackDecidesNoLongerOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	var f counted
	l := limiter(t, s.Client(), fairlimit.Every(time.Minute), fairlimit.WithMaxQueued(2), fairlimit.WithFallback(&f))
	require.NoError(t, l.Wait(t.Context()))
	for range 2 {
		_, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	s.Kill()
	_, err := l.Allow(t.Context()) // finds out that Redis fails
	require.Error(t, err)
	require.NoError(t, l.Wait(t.Context()))
	s.Restart()
	require.Eventually(t, func() bool {
		before := f.permits.Load()
		for range 5 {
			if err := l.Wait(t.Context()); err != nil {
				assert.ErrorIs(t, err, fairlimit.ErrTooManyQueued)
			}
		}
		return f.permits.Load() == before
	}, 20*time.Second, 100*time.Millisecond)
	let := f.permits.Load()
	for range 100 {
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued)
		time.Sleep(20 * time.Millisecond)
	}
	assert.Equal(t, let, f.permits.Load())
}

// TestATrialThatAsksNothingIsNotSilent has callers that are refused without a
// question after Redis is back.
func TestATrialThatAsksNothingIsNotSilent(t *testing.T) {
	t.Parallel()
	for why, c := range map[string]struct {
		option fairlimit.Option
		refuse func(t *testing.T, q *fairlimit.Queue) (another *fairlimit.Queue)
	}{
		"a pause": {fairlimit.WithPauseWithin(20 * time.Second), func(t *testing.T, q *fairlimit.Queue) *fairlimit.Queue {
			require.NoError(t, q.Pause(t.Context(), time.Minute))
			return q
		}},
		"the share of a flow": {fairlimit.WithFlow("a", 1), func(t *testing.T, q *fairlimit.Queue) *fairlimit.Queue {
			for range 8 {
				_, err := q.ReserveN(t.Context(), 1)
				require.NoError(t, err)
			}
			another, err := q.Flow("b", 1)
			require.NoError(t, err)
			return another
		}},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartServer(t)
			q := limiter(t, s.Client(), fairlimit.Every(time.Minute), c.option,
				fairlimit.WithFallback(new(counted))).(*fairlimit.Queue)
			require.NoError(t, q.Wait(t.Context()))
			another := c.refuse(t, q)
			allow := func() error {
				ok, err := q.Allow(t.Context())
				assert.False(t, ok)
				return err
			}
			require.Eventually(t, func() bool { return allow() == nil }, 20*time.Second, time.Millisecond)
			s.Kill()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := another.Wait(ctx); another == q {
				require.ErrorIs(t, err, fairlimit.ErrPaused, "a pause holds the fallback, too")
			} else {
				require.NoError(t, err, "the fallback lets it go")
			}
			s.Restart()
			require.Eventually(t, func() bool { return allow() == nil }, 20*time.Second, 10*time.Millisecond)
			for range 150 { // three seconds
				require.NoError(t, allow(), "a fallback without AllowN does not decide")
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
}

// TestAPauseHoldsTheFallback has a queue paused whose Redis is lost then. The
// fallback would let everybody go at once.
func TestAPauseHoldsTheFallback(t *testing.T) {
	t.Parallel()
	const pause = 3 * time.Second
	s := redistest.StartServer(t)
	q := limiter(t, s.Client(), fairlimit.PerSecond(100), fairlimit.WithFallback(fairlimit.FailOpen)).(*fairlimit.Queue)
	require.NoError(t, q.Wait(t.Context()))
	start := time.Now()
	require.NoError(t, q.Pause(t.Context(), pause))
	s.Kill()
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, q.Wait(soon), fairlimit.ErrPaused)
	allowed, err := q.Allow(t.Context())
	require.NoError(t, err)
	require.False(t, allowed)
	require.NoError(t, q.Wait(t.Context()))
	require.GreaterOrEqual(t, time.Since(start), pause)
	allowed, err = q.Allow(t.Context())
	require.NoError(t, err)
	require.True(t, allowed, "afterwards it decides")
}

// TestTheLineOfAFullFlowWaitsForRedisOnceItIsBack has callers that ask nothing
// come after Redis is back: their flow holds as much as it may.
func TestTheLineOfAFullFlowWaitsForRedisOnceItIsBack(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	var f counted
	q := limiter(t, s.Client(), fairlimit.Every(time.Minute), fairlimit.WithLookAhead(4),
		fairlimit.WithFallback(&f)).(*fairlimit.Queue)
	flow := func(id string) *fairlimit.Queue {
		flow, err := q.Flow(id, 1)
		require.NoError(t, err)
		return flow
	}
	a, b := flow("a"), flow("b")
	for range 5 { // one goes, and four are held ahead
		_, err := a.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	s.Kill()
	for range 3 {
		require.NoError(t, b.Wait(t.Context()), "the fallback lets it go")
	}
	s.Restart()
	// stands reports whether a caller of the full flow stands in line for d.
	stands := func(d time.Duration) bool {
		ctx, leave := context.WithCancel(t.Context())
		defer time.AfterFunc(d, leave).Stop()
		err := a.Wait(ctx)
		leave()
		if err != nil {
			assert.ErrorIs(t, err, context.Canceled)
		}
		return err != nil
	}
	require.Eventually(t, func() bool { return stands(50 * time.Millisecond) }, 20*time.Second, time.Millisecond)
	let := f.permits.Load()
	for range 10 {
		require.True(t, stands(300*time.Millisecond))
	}
	require.True(t, stands(2*time.Second))
	assert.Equal(t, let, f.permits.Load())

	ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
	defer leave()
	_, err := b.ReserveN(ctx, 1)
	require.NoError(t, err, "the first question that goes tries")
	require.True(t, stands(300*time.Millisecond))

	s.Kill()
	left := make(chan bool, 1)
	go func() { left <- !stands(20 * time.Second) }()
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, b.Wait(t.Context()))
	require.True(t, <-left, "whoever stands in line leaves for the fallback if Redis fails again")
}

func TestAMissedTurnIsNoFailureOfRedis(t *testing.T) {
	t.Parallel()
	var f counted
	fellBack := func(because error) { assert.NotErrorIs(t, because, fairlimit.ErrMissed) } // nil is Redis's return
	l := limiter(t, redistest.Standalone(t), fairlimit.PerSecond(200), fairlimit.WithMaxLateness(time.Microsecond),
		fairlimit.WithFallback(&f), fairlimit.WithTrace(&fairlimit.Trace{FellBack: fellBack}))
	missed := 0
	for range 30 {
		if err := l.Wait(t.Context()); err != nil {
			require.ErrorIs(t, err, fairlimit.ErrMissed)
			missed++
		}
	}
	assert.Positive(t, missed)
}
