package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestPauses(t *testing.T) {
	tell(t, []story{
		{"a pause of a queue that is not there begins one", "2/1s", "a pauses 1m, lives 1m0.001s, a waits 1m, a paused 1m, " +
			"a available 0, at 59s, a waits 1s, a paused 1s, a takes 1, a queued 1, a returns, a queued 0, " +
			"a takes 1 after 1s, at 1m, a available 1"},
		{"a queue that was paused is plain again once its clock runs", "1/1s", "a takes 5, a pauses 10s, b takes 1, " +
			"a returns 1:, a returns b, mark +, at 13s, a takes 1, a stands 5 at >0s, mark -, b takes 1 after 1s, mark -"},
	})
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
		o := f.enters(t, allScripts, engine.Config{})
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
		pause(t, fresh.enters(t, allScripts, engine.Config{}), time.Minute)
		queued(t, fresh, 2, 1)
		require.Equal(t, time.Minute+time.Second, status(t, fresh).Delay)
	})
}
