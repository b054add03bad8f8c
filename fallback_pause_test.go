package fairlimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// pausedAndLost is a queue that is paused for a day. Then Redis fails while
// fails is set. A caller waits for the end of the pause, and done tells after
// how long it went.
func pausedAndLost(
	t *testing.T, f fairlimit.Fallback,
) (q *fairlimit.Queue, fails *atomic.Bool, done <-chan time.Duration) {
	fails = new(atomic.Bool)
	rdb := redistest.Mini(t).NewClient(t)
	rdb.AddHook(refuses{set: fails})
	q = queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Second), fairlimit.WithFallback(f))
	require.NoError(t, q.Pause(t.Context(), 24*time.Hour))
	fails.Store(true)
	went := make(chan time.Duration, 1)
	start := time.Now()
	go func() {
		assert.NoError(t, q.Wait(t.Context()))
		went <- time.Since(start)
	}()
	time.Sleep(3 * time.Second)
	return q, fails, went
}

func TestAResetFreesThoseWhoWaitForTheFallbackInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		q, fails, done := pausedAndLost(t, &f)
		fails.Store(false)
		require.NoError(t, q.Reset(t.Context()))
		assert.Equal(t, 3*time.Second, <-done)
		assert.EqualValues(t, 1, f.permits.Load(), "nobody knows yet that Redis grants")
	})
}

func TestThoseWhoOutlastedAPauseAskARedisThatIsBack(t *testing.T) {
	for _, reset := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var f second
			q, fails, done := pausedAndLost(t, &f)
			fails.Store(false)
			_, err := q.Allow(t.Context()) // from here on Redis is read
			require.NoError(t, err)
			synctest.Wait()
			_, err = q.ReserveN(t.Context(), 1) // and grants the first turn after the pause
			require.NoError(t, err)
			went := 24*time.Hour + time.Second
			if reset {
				require.NoError(t, q.Reset(t.Context()))
				went = 3 * time.Second
			}
			assert.Equal(t, went, <-done)
			assert.Zero(t, f.permits.Load(), "the fallback decides no longer")
		})
	}
}

// A caller that accepts to wait for the end of a pause leaves as soon as it
// becomes too long.
func TestALongerPauseRefusesThoseWhoWaitForTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, done := pausedAndLost(t, new(second))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Hour)
		defer cancel()
		errs := lineUp(ctx, q, 1, 1)
		require.Error(t, q.Pause(t.Context(), 48*time.Hour), "Redis fails")
		start := time.Now()
		require.ErrorIs(t, <-errs, fairlimit.ErrPaused)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 48*time.Hour+3*time.Second, <-done)
	})
}
