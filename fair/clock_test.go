package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// Callers sleep, and nobody asks: they only look.
func TestAServerClockSetBackHoldsNobodyWhoOnlyLooks(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(testing.TB, *fair){
		"set back":                  func(testing.TB, *fair) {},
		"another server takes over": moves,
	} {
		t.Run(what, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				for _, back := range []time.Duration{10 * time.Second, time.Hour} {
					f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
					news := hears(f)
					held := queued(t, f, 6, 1)
					change(t, f)
					for now := 600 * time.Millisecond; now < 6*time.Second; now += 250 * time.Millisecond {
						at(now - back)
						require.NoError(t, f.Look(t.Context()))
						n := last(t, news)
						for i, g := range held {
							comes := time.Duration(i)*time.Second + 600*time.Millisecond
							require.Equal(t, max(0, comes-now), n.Until(g.At), "turn %d, %v after the first", i, now)
						}
					}
				}
			})
		})
	}
}
