package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestAPauseOfAQueueThatIsNotThereBeginsOne(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 2, Per: time.Second})
		pause(t, f, time.Minute)
		require.Equal(t, time.Minute+time.Millisecond, w.ttl(t, f))
		require.Equal(t, engine.Status{Delay: time.Minute, Paused: time.Minute}, status(t, f))
		at(59 * time.Second)
		require.Equal(t, engine.Status{Delay: time.Second, Paused: time.Second}, status(t, f))
		next := queued(t, f, 1, 1)
		require.Equal(t, 1, status(t, f).Queued, "the turn at the end of the pause is ahead")
		giveBack(t, f, next...)
		require.Zero(t, status(t, f).Queued)
		require.Equal(t, time.Second, queuedWait(t, f))
		at(time.Minute)
		require.Equal(t, 1, status(t, f).Available)
	})
}

func TestAPauseThatWasLostGoesOn(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		quota := engine.Quota{Permits: 1, Per: time.Second}
		t.Run("with the whole queue", func(t *testing.T) {
			f, at := w.queue(t, quota)
			stranger := f.joins(t, quota)
			queued(t, f, 3, 1)
			pause(t, f, 10*time.Second)
			at(4 * time.Second)
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			news := hears(f)
			require.Equal(t, 8*time.Second+999_999*time.Microsecond, status(t, f).Delay, "6 s, and what was held")
			require.True(t, last(t, news).Lost)
			require.Equal(t, 6*time.Second, status(t, stranger).Paused)
			at(10 * time.Second)
			require.Zero(t, status(t, f).Paused)
			require.Equal(t, 2*time.Second+999_999*time.Microsecond, status(t, stranger).Delay)
		})
		t.Run("and nothing else", func(t *testing.T) {
			f, at := w.queue(t, quota)
			news := hears(f)
			pause(t, f, 10*time.Second)
			at(4 * time.Second)
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			require.Equal(t, 6*time.Second, queuedWait(t, f))
			require.False(t, last(t, news).Lost, "no turn was")
		})
		t.Run("though a stranger has begun anew", func(t *testing.T) {
			f, at := w.queue(t, quota)
			stranger := f.joins(t, quota)
			pause(t, f, 10*time.Second)
			at(4 * time.Second)
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			require.Zero(t, queuedWait(t, stranger))
			require.Equal(t, 6*time.Second+999_999*time.Microsecond, queuedWait(t, f))
			require.Equal(t, 6*time.Second, status(t, stranger).Paused)
		})
		t.Run("in a failover", func(t *testing.T) {
			f, at := w.queue(t, quota)
			news := hears(f)
			held := queued(t, f, 3, 1)
			replica := snap(t, f)
			at(500 * time.Millisecond)
			pause(t, f, 10*time.Second)
			at(4 * time.Second)
			replica.restore(t, f)
			require.Equal(t, 8*time.Second+999_999*time.Microsecond, status(t, f).Delay)
			n := last(t, news)
			require.False(t, n.Lost, "no turn was")
			require.Equal(t, held[0].ID, n.Queue)
			require.Equal(t, 6*time.Second+999_999*time.Microsecond, n.Until(held[1].At), "when it was to come")
		})
		t.Run("in a failover, with turns", func(t *testing.T) {
			f, at := w.queue(t, quota)
			queued(t, f, 1, 1)
			replica := snap(t, f)
			at(500 * time.Millisecond)
			pause(t, f, 10*time.Second)
			held := queued(t, f, 1, 1)
			at(4 * time.Second)
			replica.restore(t, f)
			next := queued(t, f, 1, 1)
			require.Equal(t, held[0].At+time.Second.Microseconds(), next[0].At)
			require.Equal(t, held[0].ID, next[0].ID)
			giveBack(t, f, held...)
			require.Equal(t, 2, status(t, f).Queued+1)
		})
	})
}

func TestAQueueThatWasPausedIsPlainAgainOnceItsClockRuns(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
	other := f.joins(t, engine.Quota{Permits: 1, Per: time.Second})
	held := queued(t, f, 5, 1)
	pause(t, f, 10*time.Second)
	held = append(held, queued(t, other, 1, 1)...)
	giveBack(t, f, held[1:]...)
	mark := func() byte { return w.rdb.Get(t.Context(), f.key).Val()[len(f.head)] }
	require.Equal(t, byte('+'), mark())
	at(13 * time.Second)
	next := queued(t, f, 1, 1)
	require.Greater(t, next[0].At, held[0].At, "the queue's clock is behind the server's now")
	require.Equal(t, byte('-'), mark())
	require.Equal(t, time.Second, queuedWait(t, other), "who knows of older turns has nothing to add")
	require.Equal(t, byte('-'), mark())
}

func TestAPauseOfMoreThanTenYearsIsNotSupported(t *testing.T) {
	t.Parallel()
	f := build(t, realWorld(t).rdb, engine.Quota{Permits: 1, Per: time.Second})
	require.ErrorIs(t, f.Pause(t.Context(), longestPer+1), engine.ErrUnsupported)
	require.NoError(t, f.Pause(t.Context(), longestPer))
	require.NoError(t, f.Reset(t.Context()))
}

// Whoever has no quota steers the queue of those who have one.
func TestWhoHasNoQuotaKeepsTheWindowsOfOthers(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		f, _ := w.queue(t, engine.Quota{Permits: 2, Per: time.Second}, engine.Quota{Permits: 9, Per: time.Minute})
		o := f.open(t)
		news := hears(o)
		require.NoError(t, o.Look(ctx))
		require.Empty(t, last(t, news).Queue, "there is no queue")
		held := queued(t, f, 3, 1)
		pause(t, o, 10*time.Second)
		require.Equal(t, 10*time.Second, status(t, f).Paused)
		require.Equal(t, status(t, f), status(t, o))
		giveBack(t, o, held[2])
		require.Zero(t, status(t, f).Queued)
		require.NoError(t, o.Reset(ctx))
		require.Contains(t, w.rdb.Get(ctx, f.key).Val(), "fair5 "+word(f.windows)+" ")
		require.Equal(t, status(t, f), status(t, o))

		require.NoError(t, w.rdb.Set(ctx, f.key, "foreign", 0).Err())
		require.NoError(t, o.Reset(ctx))
		require.Equal(t, engine.Status{Available: 2}, status(t, f))

		fresh, _ := w.queue(t, engine.Quota{Permits: 2, Per: time.Second})
		pause(t, fresh.open(t), time.Minute)
		queued(t, fresh, 2, 1)
		require.Equal(t, time.Minute+time.Second, status(t, fresh).Delay)
	})
}
