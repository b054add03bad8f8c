package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/model"
)

// From very many permits to very few: the pace must stay a number that the
// scripts read again.
func TestAQuotaThatBecomesVeryMuchNarrowerLeavesAStateThatCanBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, now := range []time.Duration{0, 1999 * time.Millisecond} {
			f, at := w.stored(t, quotas(t, "1000000/1s")...)
			queued(t, f, 3, 1000000)
			at(now)
			set(t, f, "1/12h")
			pause(t, f, longestPer)
			at(2 * time.Second)
			require.NoError(t, f.Look(t.Context()))
			status(t, f)
			queued(t, f, 1, 1)
			require.Greater(t, queuedWait(t, f), longestPer)
		}
	})
}

// A limiter that looks for stored quotas begins, as one does for each run of
// "fairlimit wait", while others keep to wider quotas of their own. Each time the
// clock runs slower by the same ratio once more.
func TestTheClockDoesNotSlowDownMoreWithEachProcessThatBegins(t *testing.T) {
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
		require.Less(t, last(t, news).Until(held[99].At), 11*time.Second,
			"20/s held, 10/s stored: at most twice as long")
	})
}

// A quota becomes wide for a while. Turns that are held from before it and turns
// from meanwhile fall into the same windows.
func TestTurnsFromBeforeAWideQuotaCountForThoseFromMeanwhile(t *testing.T) {
	for _, c := range []struct {
		narrow, wide string
		before       int
		window       model.Window
	}{
		{"1/1s 3/10s", "1/100ms 3/1s", 5, model.Window{Permits: 3, Length: 10_000_000}},
		{"3/1s 4/10s", "3/100ms 4/1s", 8, model.Window{Permits: 4, Length: 10_000_000}}, // at the same slot
	} {
		f, _ := realWorld(t).stored(t)
		set(t, f, c.narrow)
		held := queued(t, f, c.before, 1)
		set(t, f, c.wide)
		held = append(held, queued(t, f, 2, 1)...)
		set(t, f, c.narrow)
		var turns []model.Turn
		for _, due := range dues(t, f, held) {
			turns = append(turns, model.Turn{Slot: due.Microseconds(), N: 1})
		}
		require.NoError(t, model.Strict([]model.Window{c.window}, turns), c.narrow)
	}
}
