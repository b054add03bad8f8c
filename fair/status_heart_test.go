package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// Status goes by the windows of who asks, as its next turn does.
func TestStatusUnderOtherWindowsIsWhatTheNextTurnGets(t *testing.T) {
	t.Skip("Status cuts no rows, as it writes nothing: they count whole, and it says 159 s for 110 s")
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		queued(t, f, 100, 1)
		other := f.joins(t, engine.Quota{Permits: 50, Per: time.Minute})
		delay := wait(t, other)
		require.Equal(t, take(t, other, engine.Request{N: 1, MaxWait: engine.Forever})[0].Wait, delay)
	})
}

// LIMITS: 4 % of what the queue was. Whatever the windows are.
func TestAQueueBehindCrowdedWindowsLeavesFourPercent(t *testing.T) {
	t.Skip("up to 6.9 % with two windows: compact.lua halves far where near and far want room")
	w := realWorld(t)
	for name, q := range map[string][]engine.Quota{
		"2": {{Permits: 1000, Per: time.Minute}, {Permits: 100, Per: 5 * time.Second}},
		"3": {{Permits: 3200, Per: 64 * time.Second}, {Permits: 900, Per: 16 * time.Second}, {Permits: 250, Per: 4 * time.Second}},
	} {
		for _, count := range []int{1500} {
			for _, joins := range []int{1, 30} {
				t.Run(fmt.Sprint(name, "/", count, "/", joins), func(t *testing.T) {
					t.Parallel()
					worst, what := 0.0, ""
					for seed := range uint64(2) {
						rng := rand.New(rand.NewPCG(seed, 4))
						f, at := w.queue(t, q...)
						o := newOracle(f)
						now, pace := 0.0, 0.0
						for _, window := range f.windows {
							pace = max(pace, float64(window.Length)/float64(window.Permits))
						}
						var arrivals []arrival
						for range 1000 {
							now += rng.ExpFloat64() * pace * 1.05
							arrivals = append(arrivals, arrival{microseconds(int64(now)), engine.Request{N: 1, MaxWait: engine.Forever}})
						}
						used := arrive(t, f, arrivals)
						at(microseconds(int64(now)))
						var grants []engine.Grant
						for range joins {
							now += rng.ExpFloat64() * pace * 7
							at(microseconds(int64(now)))
							grants = append(grants, queued(t, f, count/joins, 1)...)
						}
						micros := beginning.Add(microseconds(int64(now))).UnixMicro()
						for _, g := range append(used, grants...) {
							if g.At <= micros {
								o.holds(g)
							}
						}
						for _, g := range used {
							if g.At > micros {
								grants = append(grants, g)
							}
						}
						backlog := wait(t, f)
						giveBack(t, f, shuffled(grants, microseconds(int64(now)))...)
						debt := wait(t, f) - microseconds(o.Earliest(micros, 1)-micros)
						if part := 100 * float64(debt) / float64(backlog); part > worst {
							worst, what = part, fmt.Sprintf("%v of %v, longest %v", debt, backlog, microseconds(f.windows[0].Length))
						}
					}
					require.LessOrEqual(t, worst, 4.0, what)
				})
			}
		}
	}
}
