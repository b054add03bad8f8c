package fairlimit_test

import (
	"context"
	"errors"
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

func queueOf(t *testing.T, rdb *redis.Client, name string, quota fairlimit.Quota, opts ...fairlimit.Option) *fairlimit.Queue {
	q, err := fairlimit.NewQueue(rdb, name, quota, opts...)
	require.NoError(t, err)
	return q
}

// The limiter heard of the reset before the reservation's Wait began, and
// nobody tells it then.
func TestAReservationWhoseQueueWasResetBeforeItsWaitLinesUpAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Every(10 * time.Second)
		q, admin := queueOf(t, rdb, name, quota), queueOf(t, rdb, name, quota)
		start := time.Now()
		require.NoError(t, q.Wait(t.Context()))
		turn, err := q.ReserveN(t.Context(), 1) // at 10 s
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, admin.Reset(t.Context()))
		require.NoError(t, q.Wait(t.Context())) // at 1 s; q hears of the reset
		require.NoError(t, turn.Wait(t.Context()))
		assert.InDelta(t, 11, time.Since(start).Seconds(), 0.1, "ten seconds after the other")
	})
}

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

// The server's clock gains 1 ms in a pause of 30 s, as clocks may. Then whoever
// has its turn just after the pause misses it, though nothing was late.
func TestNobodyMissesItsTurnBecauseClocksRunApartInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		name := redistest.Name(t)
		missed := 0
		trace := &fairlimit.Trace{Missed: func(n int, _ time.Duration) { missed += n }}
		quota := fairlimit.PerSecond(5)
		q, other := queueOf(t, m.Client, name, quota, fairlimit.WithTrace(trace)), queueOf(t, m.Client, name, quota)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		start := time.Now()
		var first, second goers
		first.wait(t, q, 0, 5)
		time.Sleep(time.Second)
		second.wait(t, other, 0, 5)
		for range 28 { // the server gains 35 ppm
			time.Sleep(time.Second)
			m.SetTime(time.Now().Add(time.Since(start) / 28000))
		}
		synctest.Wait()
		ticker := time.NewTicker(100 * time.Microsecond)
		defer ticker.Stop()
		done := make(chan struct{})
		go func() { first.all.Wait(); second.all.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-ticker.C:
				m.SetTime(time.Now().Add(time.Since(start) / 28000))
			}
		}
		assert.Zero(t, missed, "no limiter has a MaxLateness")
		for _, at := range first.at {
			assert.Less(t, at.Sub(start).Seconds(), 30.1, "those who called first went first")
		}
	})
}

// Narrower for a while, then wide again: those who have heard that they come
// later have to hear that they come sooner again.
func TestThoseWhoSleepHearThatTheQuotaIsWideAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Quota{Permits: 10, Per: time.Second, Burst: 1}
		stored := fairlimit.WithStoredQuota()
		q, other := queueOf(t, rdb, name, quota, stored), queueOf(t, rdb, name, quota, stored)
		narrow := fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1}
		require.NoError(t, other.SetQuotas(t.Context(), quota))
		var g, late goers
		start := time.Now()
		g.wait(t, q, 0, 60) // up to 6 s
		time.Sleep(time.Second)
		require.NoError(t, other.SetQuotas(t.Context(), narrow))
		time.Sleep(2 * time.Second)
		require.NoError(t, other.SetQuotas(t.Context(), quota))
		time.Sleep(time.Second)
		late.wait(t, other, 0, 60)
		g.all.Wait()
		last := time.Since(start)
		late.all.Wait()
		t.Log("last of q", last, "last of other", time.Since(start), "first of other", late.at[0].Sub(start))
		for i := range g.order {
			require.Equal(t, i, g.order[i])
		}
		all := goers{}
		for _, at := range append(g.at, late.at...) {
			if at.Sub(start) > 4500*time.Millisecond {
				all.at = append(all.at, at)
			}
		}
		assert.LessOrEqual(t, all.most(time.Second), 10)
		assert.Less(t, g.at[len(g.at)-1].Sub(start), late.at[0].Sub(start), "first come, first served")
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

// When all who sleep line up again at once, nobody wakes them: they sleep on to
// their old turns, and go then on answers that are long past.
func TestThoseWhoseQueueWasResetWakeAtOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		q, admin := queueOf(t, rdb, name, fairlimit.Every(time.Minute)), queueOf(t, rdb, name, fairlimit.Every(time.Minute))
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

// refuses fails what is asked while it is set.
type refuses struct{ set *atomic.Bool }

func (r refuses) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refuses) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.set.Load() {
			cmd.SetErr(errors.New("refused"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (r refuses) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The first time Redis does not record the pause, so that the slots of those who
// are held pass. The second time it does. Nobody may take the end of the pause
// for the slot that has passed before.
func TestSlotsThatPassedBeforeAPauseWasRecordedAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		var fails atomic.Bool
		rdb := m.NewClient(t)
		rdb.AddHook(refuses{&fails})
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1})
		var g goers
		g.wait(t, q, 0, 100) // up to 20 s
		time.Sleep(2*time.Second + 100*time.Millisecond)
		fails.Store(true)
		require.Error(t, q.Pause(t.Context(), 30*time.Second))
		fails.Store(false)
		time.Sleep(8 * time.Second)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		g.all.Wait()
		assert.LessOrEqual(t, g.most(time.Second), 5)
		for i := range g.order {
			require.Equal(t, i, g.order[i])
		}
	})
}

// Somebody reset the queue since this limiter's longer pause was recorded. A new
// pause within X/4 of that is taken for recorded, and is not sent.
func TestAPauseRightAfterAResetIsSent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		q, other := queueOf(t, rdb, name, fairlimit.PerSecond(5)), queueOf(t, rdb, name, fairlimit.PerSecond(5))
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, other.Reset(t.Context()))
		_, err := q.Status(t.Context()) // q hears of the reset
		require.NoError(t, err)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		s, err := other.Status(t.Context())
		require.NoError(t, err)
		assert.NotZero(t, s.Paused)
	})
}
