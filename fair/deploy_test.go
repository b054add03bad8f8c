package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestACallerThatWasOnlyEverRefusedIsNoted(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		busy, at := w.queue(t, engine.Quota{Permits: 5, Per: time.Second})
		careful := busy.joins(t, engine.Quota{Permits: 1, Per: 10 * time.Second})
		for now := time.Duration(0); now < 30*time.Second; now += w.step {
			at(now)
			take(t, busy, engine.Request{N: 1})
			require.False(t, take(t, careful, engine.Request{N: 1})[0].Granted)
		}
		require.Greater(t, w.ttl(t, busy), 9*time.Second, "its window is kept")
	})
}

func TestACallerThatComesByWithinTwiceItsPerIsHeldToItsQuota(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		busy, at := w.queue(t, engine.Quota{Permits: 5, Per: time.Second})
		careful := busy.joins(t, engine.Quota{Permits: 10, Per: 10 * time.Second})
		require.True(t, take(t, careful, engine.Request{N: 1})[0].Granted)
		for now := w.step; now < 22*time.Second; now += w.step {
			at(now)
			if now == 9*time.Second {
				require.False(t, take(t, careful, engine.Request{N: 1})[0].Granted)
			}
			take(t, busy, engine.Request{N: 1})
		}
		at(24 * time.Second)
		require.False(t, take(t, careful, engine.Request{N: 1})[0].Granted)
	})
}

func TestACallerWithOtherQuotasCostsABacklogLittleOfItsOrder(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		grants := queued(t, f, 600, 1)
		at(time.Millisecond)
		queued(t, f.joins(t, engine.Quota{Permits: 60, Per: time.Minute}), 1, 1)
		giveBack(t, f, shuffled(grants, 0)...)
		require.LessOrEqual(t, wait(t, f), 600*time.Second+7*time.Second, "but for the other's turn at the end")
		f, at = w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		grants = queued(t, f, 600, 1)
		other := f.joins(t, engine.Quota{Permits: 60, Per: time.Minute})
		last := queued(t, other, 1, 1)
		at(time.Millisecond)
		giveBack(t, f, append(last, shuffled(grants[3:], 0)...)...)
		require.LessOrEqual(t, wait(t, f), 3*time.Second+6*time.Second)
	})
}
