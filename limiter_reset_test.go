package fairlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// A limiter that paused asks nothing for an Allow until its own pause is over,
// so it never hears that somebody reset the queue.
func TestAllowHearsOfAReset(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		q, admin := queueOf(t, rdb, name, fairlimit.PerSecond(10)), queueOf(t, rdb, name, fairlimit.PerSecond(10))
		require.NoError(t, q.Pause(t.Context(), 24*time.Hour))
		time.Sleep(time.Minute)
		require.NoError(t, admin.Reset(t.Context()))
		time.Sleep(time.Minute)
		allowed, err := admin.Allow(t.Context())
		require.NoError(t, err)
		require.True(t, allowed)
		allowed, err = q.Allow(t.Context())
		require.NoError(t, err)
		assert.True(t, allowed, "it is still held by a pause that was reset")
	})
}

// When all who sleep line up again at once, nobody wakes them: they sleep on to
// their old turns, and go then on answers that are long past.
func TestThoseWhoseQueueWasResetWakeAtOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Every(time.Minute)
		q, admin := queueOf(t, rdb, name, quota), queueOf(t, rdb, name, quota)
		start := time.Now()
		require.NoError(t, q.Wait(t.Context()))
		var g goers
		g.wait(t, q, 0, 1) // at 60 s
		time.Sleep(time.Second)
		require.NoError(t, admin.Reset(t.Context()))
		time.Sleep(time.Second)
		_, err := q.Status(t.Context()) // q hears of the reset
		require.NoError(t, err)
		g.all.Wait()
		assert.InDelta(t, 2, time.Since(start).Seconds(), 0.1, "the first caller after the reset")
	})
}

// After a flush an operator who knows only the name resets the queue. Those who
// remember it must believe that.
func TestAResetByOneWhoKnowsOnlyTheNameEndsTheWaitAfterAFlush(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		q := queueOf(t, rdb, name, fairlimit.Quota{Permits: 1000, Per: 24 * time.Hour})
		require.NoError(t, q.Wait(t.Context()))
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		admin, err := fairlimit.Open(rdb, name)
		require.NoError(t, err)
		require.NoError(t, admin.Reset(t.Context()))
		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.True(t, allowed)
		s, err := q.Status(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Delay)
	})
}

func TestAPauseDoesNotComeBackAfterAFlushAndAReset(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		q, admin := queueOf(t, rdb, name, fairlimit.PerSecond(5)), queueOf(t, rdb, name, fairlimit.PerSecond(5))
		require.NoError(t, q.Pause(t.Context(), 24*time.Hour))
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		require.NoError(t, admin.Reset(t.Context()))
		s, err := q.Status(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Paused)
	})
}

func TestThoseWhoSleepLineUpAgainAfterAReset(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1}
		one, other := named(t, rdb, name, quota), named(t, rdb, name, quota)
		start := time.Now()
		require.NoError(t, one.Wait(t.Context()))
		var g goers
		g.wait(t, other, 0, 40) // up to 8 s
		time.Sleep(2*time.Second - time.Since(start))
		require.NoError(t, one.Reset(t.Context()))
		var late goers
		late.wait(t, one, 0, 40)
		g.all.Wait()
		late.all.Wait()
		for i := range g.order {
			require.Equal(t, i, g.order[i])
		}
		all := goers{at: append(g.at, late.at...)}
		var after goers
		for _, at := range all.at {
			if at.Sub(start) > 3*time.Second {
				after.at = append(after.at, at)
			}
		}
		assert.LessOrEqual(t, after.most(time.Second), 5)
	})
}
