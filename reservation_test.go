package fairlimit_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAReservationTellsWhenToGo(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.Every(10*time.Second))
		first := reserve(t, q, 1)
		assert.Zero(t, first.Delay())
		second, err := q.ReserveN(within(t, time.Second), 1)
		require.NoError(t, err, "a deadline bounds the call and not the turn")
		assert.Equal(t, 10*time.Second, second.Slot().Sub(first.Slot()))
		time.Sleep(4 * time.Second)
		assert.Equal(t, 1, status(t, q).Queued, "a ctx that ends later takes nothing back")
		assert.Equal(t, 6*time.Second, second.Delay())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second.Wait(ended), context.Canceled)
		require.NoError(t, second.Wait(t.Context()), "it stood")
		assert.Zero(t, time.Until(second.Slot()))
		require.ErrorIs(t, second.Wait(t.Context()), fairlimit.ErrReservationOver)
	})
}

// A Wait that began in time hears of the pause, and one that begins later
// knows.
func TestAReservationHearsOfAPauseAndOfAReset(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all, began := processes(t, server, 2, fairlimit.Every(10*time.Second)), time.Now()
		reserve(t, all[0], 1)
		first, second, third := reserve(t, all[0], 1), reserve(t, all[0], 1), reserve(t, all[0], 1)
		sleeps := background(func() error { return first.Wait(t.Context()) })
		require.NoError(t, all[1].Pause(t.Context(), time.Minute))
		require.NoError(t, <-sleeps)
		require.Equal(t, 70*time.Second, time.Since(began))
		require.ErrorAs(t, second.Wait(within(t, time.Second)), new(*fairlimit.RefusedError))
		require.NoError(t, all[1].Reset(t.Context()))
		require.NoError(t, third.Wait(t.Context()))
		assert.InDelta(t, 71, time.Since(began).Seconds(), 0.5, "it asked again, of an idle queue")
	})
}

func TestAReservationIsCancelledOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.PerHour(2))
		reserve(t, q, 2)
		cancelled := reserve(t, q, 1)
		reserve(t, q, 1) // of the same moment
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { assert.NoError(t, cancelled.Cancel(t.Context())) })
		}
		wg.Wait()
		assert.Equal(t, 1, status(t, q).Queued, "the other keeps its turn")
		require.ErrorIs(t, cancelled.Wait(t.Context()), fairlimit.ErrReservationOver)
	})
}

func TestWhatIsDueAtOnceCanBeGivenBackForAMoment(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.Every(time.Hour))
		r := reserve(t, q, 1)
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, r.Cancel(t.Context()))
		r = reserve(t, q, 1)
		require.Zero(t, r.Delay())
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, r.Cancel(t.Context()))
		assert.False(t, allow(t, q), "it may have been used")
	})
}

func TestACancelEndsAWaitThatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.Every(time.Hour))
		reserve(t, q, 1)
		r, began := reserve(t, q, 1), time.Now()
		waited := background(func() error { return r.Wait(t.Context()) })
		require.NoError(t, r.Cancel(t.Context()))
		require.ErrorIs(t, <-waited, fairlimit.ErrReservationOver)
		synctest.Wait()
		assert.Zero(t, status(t, q).Queued)
		assert.Zero(t, time.Since(began))
	})
}

func TestACancelThatFailedMayBeTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.Every(time.Second))
		reserve(t, q, 1)
		kept, unknown := reserve(t, q, 1), reserve(t, q, 1)
		w.is(traffic{before: noConnection})
		require.ErrorIs(t, kept.Cancel(t.Context()), fairlimit.ErrUnreachable)
		w.is(traffic{after: io.EOF})
		require.ErrorIs(t, unknown.Cancel(t.Context()), fairlimit.ErrOutcomeUnknown)
		w.is(traffic{})
		require.Equal(t, 1, status(t, q).Queued)
		require.NoError(t, unknown.Cancel(t.Context()), "it is not sent twice")
		require.NoError(t, kept.Wait(t.Context()), "the permits are held")
		late := reserve(t, q, 1)
		time.Sleep(1100 * time.Millisecond)
		require.NoError(t, late.Cancel(t.Context()), "its slot has passed, so nothing happens")
		require.NoError(t, late.Wait(t.Context()))
	})
}
