package fairlimit_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// These are limiters whose callers never look.

func TestWhereNobodyLooksAPauseHoldsTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f rateLimiter
		var fails atomic.Bool
		rdb := redistest.Mini(t).NewClient(t)
		rdb.AddHook(refuses{set: &fails})
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.PerSecond(1),
			fairlimit.WithFallback(&f), fairlimit.WithPauseWithin(0))
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		start := time.Now()
		fails.Store(true)
		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
		require.NoError(t, q.Wait(t.Context()))
		assert.Equal(t, time.Minute, time.Since(start))
		assert.EqualValues(t, 1, f.permits.Load())
	})
}

func TestWhereNobodyLooksAPauseThatRedisDoesNotKnowHoldsAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t, fairlimit.WithPauseWithin(0))
		s.fails = fairlimit.ErrUnreachable
		require.Error(t, q.Pause(t.Context(), time.Minute))
		allowed := make(chan bool, 1)
		go func() {
			ok, err := q.Allow(t.Context())
			assert.NoError(t, err)
			allowed <- ok
		}()
		(<-s.calls).grants(1)
		assert.False(t, <-allowed)
		synctest.Wait()
		assert.Len(t, s.givenBack(), 1)
	})
}

// A Reset frees the callers of the limiter that paused, whoever resets.
func TestWhereNobodyLooksAllowHearsOfAReset(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		q := queueOf(t, rdb, name, fairlimit.PerSecond(10), fairlimit.WithPauseWithin(0))
		other := queueOf(t, rdb, name, fairlimit.PerSecond(10), fairlimit.WithPauseWithin(0))
		for _, resets := range []*fairlimit.Queue{q, other} {
			require.NoError(t, q.Pause(t.Context(), 24*time.Hour))
			time.Sleep(time.Second)
			allowed, err := q.Allow(t.Context())
			require.NoError(t, err)
			require.False(t, allowed)
			require.NoError(t, resets.Reset(t.Context()))
			time.Sleep(time.Second)
			allowed, err = q.Allow(t.Context())
			require.NoError(t, err)
			assert.True(t, allowed)
		}
	})
}

func TestWhereNobodyLooksAPauseHoldsNobodyWhoSleeps(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		missed := 0
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Second), fairlimit.WithPauseWithin(0),
			fairlimit.WithTrace(&fairlimit.Trace{Missed: func(n int, _ time.Duration) { missed += n }}))
		start := time.Now()
		var g goers
		g.wait(t, q, 0, 5) // up to 4 s
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		var late goers
		late.wait(t, q, 5, 5)
		g.all.Wait()
		assert.InDelta(t, 4, time.Since(start).Seconds(), 0.01)
		late.all.Wait()
		assert.InDelta(t, 69, time.Since(start).Seconds(), 0.01)
		assert.Zero(t, missed)
	})
}

// This limiter resets, or hears with the answer to another caller that somebody
// did.
func TestWhereNobodyLooksThoseWhoseQueueWasResetLineUpAgain(t *testing.T) {
	for _, itself := range []bool{true, false} {
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
			name := redistest.Name(t)
			q := queueOf(t, rdb, name, fairlimit.Every(time.Second), fairlimit.WithPauseWithin(0))
			resets := q
			if !itself {
				resets = queueOf(t, rdb, name, fairlimit.Every(time.Second), fairlimit.WithPauseWithin(0))
			}
			var g goers
			g.wait(t, q, 0, 20)
			time.Sleep(1500 * time.Millisecond)
			require.NoError(t, resets.Reset(t.Context()))
			g.wait(t, q, 20, 10)
			g.all.Wait()
			for i := range g.at[:29] { // nobody goes in the half second before the reset
				assert.Equal(t, i == 1, g.at[i+1].Sub(g.at[i]) < 990*time.Millisecond, "after %d", g.order[i])
			}
		})
	}
}
