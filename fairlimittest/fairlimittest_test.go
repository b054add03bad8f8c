package fairlimittest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/window"
)

// everywhere runs the test in a bubble and outside.
func everywhere(t *testing.T, test func(t *testing.T)) {
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, test) })
	t.Run("real time", test)
}

func TestInABubbleAnHourTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, began := fairlimittest.New(t, fairlimit.Every(time.Minute)), time.Now()
		for range 61 {
			require.NoError(t, limiter.Wait(t.Context()))
		}
		require.Equal(t, time.Hour, time.Since(began))
	})
}

func TestWaitForSeesCallersLineUp(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q, began, ended := fairlimittest.New(t, fairlimit.Every(time.Hour)), time.Now(), make(chan error)
		fairlimittest.WaitFor(t, q, 0)
		require.NoError(t, q.Wait(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		for range 20 {
			go func() { ended <- q.Wait(ctx) }()
		}
		fairlimittest.WaitFor(t, q, 20)
		require.Less(t, time.Since(began), time.Hour, "it waits for no turn")
		cancel()
		for range 20 {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	})
}

func TestWaitForSeesWhatOtherProcessesQueue(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		s := fairlimittest.Start(t)
		for range 3 {
			other := s.Queue(t, "tax", fairlimit.Every(time.Hour), fairlimit.WithPrefix("p:"))
			go func() { _, _ = other.ReserveN(t.Context(), 1) }()
		}
		look, err := fairlimit.Open(s.Client(t), "tax", fairlimit.WithPrefix("p:"))
		require.NoError(t, err)
		s.WaitFor(t, look, 2)
	})
}

func TestWaitForFailsWhenNobodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		failure := failureOf(func(t testing.TB) {
			q := fairlimittest.New(t, fairlimit.Every(time.Hour))
			for range 2 {
				_, err := q.ReserveN(t.Context(), 1)
				assert.NoError(t, err)
			}
			fairlimittest.WaitFor(t, q, 2)
		})
		require.Equal(t, "fairlimittest: WaitFor: 1 permits are queued after 30s, want 2; "+
			"a caller that goes at once does not count", failure)
		require.Equal(t, 30*time.Second, time.Since(began))
	})
}

func TestWaitForOfAnotherLimiterFails(t *testing.T) {
	s := fairlimittest.Start(t)
	q := s.Queue(t, "tax", fairlimit.PerSecond(1))
	require.Nil(t, fairlimittest.ServerOf(q))
	failure := failureOf(func(t testing.TB) { fairlimittest.WaitFor(t, q, 0) })
	require.Contains(t, failure, "New did not make this limiter")
	require.NoError(t, s.Client(t).Set(t.Context(), "fairlimit:{tax}", "something else", 0).Err())
	require.NotEmpty(t, failureOf(func(t testing.TB) { s.WaitFor(t, q, 0) }))
}

func TestWhatIsNoQueueFailsTheTest(t *testing.T) {
	require.Contains(t, failureOf(func(t testing.TB) { fairlimittest.New(t, fairlimit.Quota{}) }), "invalid quota")
	require.Contains(t, failureOf(func(t testing.TB) {
		fairlimittest.New(t, fairlimit.PerSecond(1), fairlimit.WithEngine(window.New))
	}), "not supported by this engine")
}

func TestTheServersClockCanBeMoved(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := fairlimittest.New(t, fairlimit.PerHour(2))
		s := fairlimittest.ServerOf(q)
		allowed := func() (n int) {
			for {
				ok, err := q.Allow(t.Context())
				require.NoError(t, err)
				if !ok {
					return n
				}
				n++
			}
		}
		require.Equal(t, 2, allowed())
		s.SetTime(time.Now().Add(30 * time.Minute))
		require.Zero(t, allowed())
		s.SetTime(time.Now().Add(time.Hour))
		require.Equal(t, 2, allowed())
		s.SetTime(time.Time{})
		require.Zero(t, allowed(), "the queue's clock does not go back")
	})
}

func TestAServerEndsWithItsTest(t *testing.T) {
	var q *fairlimit.Queue
	t.Run("its test", func(t *testing.T) {
		q = fairlimittest.New(t, fairlimit.Every(time.Hour))
		require.NoError(t, q.Wait(t.Context()))
		require.NotNil(t, fairlimittest.ServerOf(q))
	})
	require.Error(t, q.Wait(t.Context()))
	require.Nil(t, fairlimittest.ServerOf(q))
}
