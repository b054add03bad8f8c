package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// From very many permits to very few: the pace must stay a number that the
// scripts read again.
func TestAQuotaThatBecomesVeryMuchNarrowerLeavesAStateThatCanBeRead(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t, quotas(t, "1000000/1s")...)
		queued(t, f, 3, 1000000)
		at(1999 * time.Millisecond)
		set(t, f, "1/12h")
		require.NoError(t, f.Look(t.Context()))
		status(t, f)
	})
}

// A limiter that looks for stored quotas begins, as one does for each run of
// "fairlimit wait", while others keep to wider quotas of their own. Each time the
// clock runs slower by the same ratio once more.
func TestTheClockDoesNotSlowDownMoreWithEachProcessThatBegins(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "20/1s burst 1")...)
		set(t, f.looksFor(t), "10/1s burst 1")
		held := queued(t, f, 100, 1)
		for range 6 {
			status(t, f.looksFor(t)) // a new process
			queued(t, f, 1, 1)       // one that keeps to its own
		}
		news := hears(f)
		require.NoError(t, f.Look(t.Context()))
		require.Less(t, last(t, news).Until(held[99].At), 11*time.Second, "20/s held, 10/s stored: at most twice as long")
	})
}

// The pause that was told last counts, even if the replies arrive the other way
// round.
func TestALongerPauseIsNotForgottenForAShorterOne(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		pause(t, f, 10*time.Second)
		early, left := f.position.now(), lasts{key: 11 * time.Second, pause: 10 * time.Second}
		pause(t, f, time.Minute)
		f.position.learn(early, left) // arrives late
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(time.Second)
		require.Equal(t, 59*time.Second, status(t, f).Paused)
	})
}
