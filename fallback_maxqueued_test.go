package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

// TestATrialIsNotSpentOnACallerThatMayNotQueue has callers come after Redis is
// back, while the turns that were granted before are as many as may be held.
func TestATrialIsNotSpentOnACallerThatMayNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e := &ailing{
			stub:   &stub{queues: true, calls: make(chan *call)},
			status: func() error { return assert.AnError },
		}
		build := func(engine.Config) (engine.Engine, error) { return e, nil }
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1),
			fairlimit.WithEngine(build), fairlimit.WithMaxQueued(3), fairlimit.WithFallback(&f))
		require.NoError(t, err)
		held := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(granted(time.Minute, 1))
		synctest.Wait()
		e.fail(t, l, fairlimit.ErrUnreachable)
		r := l.(fairlimit.Reserver)

		e.statusIs(func() error { return nil })
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()), "this one starts the probe")
		synctest.Wait()
		before := f.permits.Load()
		for range 100 {
			require.ErrorIs(t, l.WaitN(t.Context(), 3), fairlimit.ErrTooManyQueued)
			_, err := r.ReserveN(t.Context(), 3)
			require.ErrorIs(t, err, fairlimit.ErrTooManyQueued)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, before, f.permits.Load(), "the fallback decides no longer")

		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs, "whoever may queue tries")
		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs, "and then all do")
		require.NoError(t, <-held)
	})
}
