package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestWithoutAQuotaThereIsNothingToTake(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		f, _ := w.queue(t, engine.Quota{Permits: 2, Per: time.Second}, engine.Quota{Permits: 9, Per: time.Minute})
		o := f.open(t)
		require.ErrorIs(t, o.Fits(1), engine.ErrNoQuota)
		_, err := o.Take(ctx, []engine.Request{{N: 1}})
		require.ErrorIs(t, err, engine.ErrNoQuota)
		require.Zero(t, status(t, o), "there is no queue")
		require.NoError(t, o.Look(ctx))

		held := queued(t, f, 3, 1)
		require.Equal(t, status(t, f), status(t, o))
		pause(t, o, 10*time.Second)
		require.Equal(t, 10*time.Second, status(t, f).Paused)
		require.Equal(t, status(t, f), status(t, o))
		giveBack(t, o, held[2])
		require.Zero(t, status(t, f).Queued)
		require.NoError(t, o.Reset(ctx))
		require.Contains(t, w.rdb.Get(ctx, f.key).Val(), "fair5 "+word(f.windows)+" ")
		require.Equal(t, engine.Status{Available: 2}, status(t, f))
		require.Equal(t, status(t, f), status(t, o))

		require.NoError(t, w.rdb.Set(ctx, f.key, "foreign", 0).Err())
		require.NoError(t, o.Reset(ctx))
		require.Equal(t, engine.Status{Available: 2}, status(t, f))

		fresh, _ := w.queue(t, engine.Quota{Permits: 2, Per: time.Second})
		pause(t, fresh.open(t), time.Minute)
		require.Equal(t, engine.Status{Delay: time.Minute, Paused: time.Minute}, status(t, fresh))
		queued(t, fresh, 2, 1)
		require.Equal(t, time.Minute+time.Second, status(t, fresh).Delay)
	})
}
