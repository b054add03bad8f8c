package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// A cell of the grid that was finer than a microsecond had a number that a
// double does not tell from its neighbour's.
func TestTheShortestWindowsEndTheirScripts(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, per := range []time.Duration{1, 2, 5, 7, 11, 13} {
			one, at := w.queue(t, engine.Quota{Permits: 1, Per: per * time.Microsecond})
			two := one.joins(t, engine.Quota{Permits: 2, Per: per * time.Microsecond})
			queued(t, one, 300, 1)
			at(3 * time.Microsecond)
			require.Greater(t, queuedWait(t, two), per*250*time.Microsecond)
		}
	})
}

func TestNoSetOfWindowsTakesLongToLayAGrid(t *testing.T) {
	t.Parallel()
	for _, quotas := range [][]engine.Quota{
		{{Permits: 1_000_000_000, Per: 365 * day, Burst: 1}},
		{{Permits: 1000, Per: day}, {Permits: 1, Per: time.Millisecond}},
		{{Permits: 1000, Per: 365 * day}, {Permits: 10, Per: time.Second}},
		{{Permits: 1000, Per: time.Hour}, {Permits: 1, Per: time.Microsecond}},
		{{Permits: 1000, Per: longestPer}, {Permits: 1, Per: time.Microsecond}},
	} {
		_, err := New(engine.Config{Name: "n", Quota: quotas[0], Extra: quotas[1:]})
		require.NoError(t, err) // or not within the time that tests have
	}
}
