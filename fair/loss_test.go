package fair

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestAQueueThatIsGoneCountsAsFullForWhoKnowsOfIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 3, Per: time.Second}, engine.Quota{Permits: 9, Per: 10 * time.Second})
		queued(t, f, 4, 1) // the last after a second
		at(100 * time.Millisecond)
		w.rdb.Del(t.Context(), f.key)
		require.False(t, take(t, f, engine.Request{N: 1, MaxWait: 10*time.Second + 899*time.Millisecond})[0].Granted)
		require.Equal(t, 10*time.Second+900*time.Millisecond, queuedWait(t, f), "ten seconds after the newest slot")
		require.Equal(t, 10*time.Second+900*time.Millisecond, queuedWait(t, f), "and from then on as ever")
	})
}

func TestAQueueThatEndedIsNotRestored(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	quota := engine.Quota{Permits: 1, Per: time.Minute}
	t.Run("its time was over", func(t *testing.T) {
		f, at := w.queue(t, quota)
		queued(t, f, 2, 1)
		at(2 * time.Minute)
		f.client.Del(t.Context(), f.key)
		status(t, f)
		require.Zero(t, f.client.Exists(t.Context(), f.key).Val())
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
	})
	t.Run("its time was over on this process's clock, though not on the server's", func(t *testing.T) {
		f := build(t, w.rdb, engine.Quota{Permits: 1, Per: 50 * time.Millisecond})
		at := setClock(t, f)
		at(0)
		queued(t, f, 2, 1)
		time.Sleep(101 * time.Millisecond)
		at(-time.Hour)
		f.client.Del(t.Context(), f.key)
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
	})
	t.Run("another gave everything back", func(t *testing.T) {
		f, at := w.queue(t, quota)
		other := f.joins(t, quota)
		grants := queued(t, f, 5, 1)
		ttl := w.ttl(t, f)
		for i := range grants {
			grants[i].Unused = true
		}
		giveBack(t, other, grants...)
		require.InDelta(t, ttl, w.ttl(t, f), float64(10*time.Millisecond), "giving back does not end the key sooner")
		require.True(t, take(t, other, engine.Request{N: 1})[0].Granted)
		at(time.Minute)
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
	})
	t.Run("another reset it", func(t *testing.T) {
		f, _ := w.queue(t, quota)
		other := f.joins(t, quota)
		old := queued(t, f, 5, 1)
		require.NoError(t, other.Reset(t.Context()))
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
		queued(t, f, 4, 1)
		giveBack(t, f, old...)
		require.Equal(t, 5*time.Minute, wait(t, f), "what was reset cannot be given back")

		queued(t, other, 5, 1)
		require.NoError(t, f.Reset(t.Context()))
		require.NoError(t, f.Reset(t.Context()))
		require.True(t, take(t, other, engine.Request{N: 1})[0].Granted)
	})
	t.Run("a stranger reset it when it was gone", func(t *testing.T) {
		f, _ := w.queue(t, quota)
		other, stranger := f.joins(t, quota), f.joins(t, quota)
		queued(t, f, 5, 1)
		queued(t, other, 5, 1)
		f.client.Del(t.Context(), f.key)
		require.False(t, take(t, f, engine.Request{N: 1})[0].Granted)
		require.NoError(t, stranger.Reset(t.Context()))
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
		require.Equal(t, time.Minute, wait(t, other))
	})
}

// What is missing may be others' permits, who keep another pace.
func TestWhatAnOlderStateLacksIsNotSpreadByThePaceOfWhoeverCallsNext(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second}, engine.Quota{Permits: 50, Per: time.Minute})
		b := a.joins(t, engine.Quota{Permits: 40, Per: time.Second})
		queued(t, a, 1, 1)
		before := snap(t, a)
		at(10 * time.Second)
		queued(t, b, 40, 1)
		granted := 40
		for s := 12; s < 70; s++ {
			at(time.Duration(s) * time.Second)
			if s == 20 {
				before.restore(t, a)
			}
			if take(t, a, engine.Request{N: 1})[0].Granted {
				granted++
			}
		}
		require.LessOrEqual(t, granted, 50, "in a minute")
	})
}

func TestAResetEndsAStateOfAnyAge(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	f, _ := w.queue(t, engine.Quota{Permits: 2, Per: time.Hour})
	require.NoError(t, w.rdb.Do(t.Context(), "set", f.key, "x", "px", 9_000_000_000_000_000).Err())
	require.NoError(t, f.Reset(t.Context()))
	require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
}

// Others have begun a queue anew whose windows hold less.
func TestWhatWasLostCountsAsFullInTheWindowsOfWhoKnows(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "100/1s")...)
		other := f.joins(t, quotas(t, "1/1m")...)
		queued(t, f, 1, 100)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		queued(t, other, 1, 1)
		at(500 * time.Millisecond)
		require.False(t, take(t, f, engine.Request{N: 1, MaxWait: 400 * time.Millisecond})[0].Granted)
	})
}

// The state is an older one of the same server.
func TestAReturnOfWhatTheStateDoesNotKnowFreesNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "1/1s")...)
		slow, third := f.joins(t, quotas(t, "1/10s")...), f.joins(t, quotas(t, "1/1s")...)
		queued(t, f, 1, 1)
		before := w.rdb.Get(t.Context(), f.key).Val()
		lost := queued(t, f, 3, 1)
		require.NoError(t, w.rdb.Set(t.Context(), f.key, before, redis.KeepTTL).Err())
		queued(t, slow, 1, 1) // after 10 s
		giveBack(t, third, lost[1])
		require.Equal(t, 1, status(t, slow).Queued)
	})
}
