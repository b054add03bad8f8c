package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Random arrivals at a little more than the quota fill more distinct moments
// than a log keeps apart. What that costs, it costs once.
func TestASaturatedQueueFallsBehindOnceAndNotInEveryWindow(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	all := [][]engine.Quota{
		{{Permits: 1000, Per: 10 * time.Second, Burst: 100}},
		{{Permits: 400, Per: 10 * time.Second, Burst: 4}},
		{{Permits: 1000, Per: 10 * time.Second, Burst: 30}},
		{{Permits: 400, Per: 10_050 * time.Millisecond, Burst: 4}}, // with a guard
		{{Permits: 20, Per: time.Second}, {Permits: 1000, Per: time.Minute}},
	}
	for _, quotas := range all[:redistest.Long(2, len(all))] {
		t.Run(fmt.Sprint(quotas), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 9))
			longest := quotas[len(quotas)-1]
			f, _ := w.queue(t, quotas...)
			exact := newOracle(f)
			mean := float64(longest.Per) / float64(longest.Permits) / 1.05
			now, behind := 0.0, time.Duration(0)
			for window := range redistest.Long(10, 30) {
				var arrivals []arrival
				for ; now < float64(longest.Per)*float64(window+1); now += rng.ExpFloat64() * mean {
					at := time.Duration(now).Truncate(time.Microsecond)
					arrivals = append(arrivals, arrival{at, engine.Request{N: 1, MaxWait: engine.Forever}})
				}
				for i, g := range arrive(t, f, arrivals) {
					slot, _ := exact.between(beginning.Add(arrivals[i].at).UnixMicro(), 1)
					exact.Hold(model.Turn{Slot: slot, N: 1})
					assert.GreaterOrEqual(t, g.At, slot, "never early")
					behind = max(behind, microseconds(g.At-slot))
				}
			}
			assert.LessOrEqual(t, behind, longest.Per/64)
			t.Logf("%.2f 64ths of Per behind", float64(behind)*64/float64(longest.Per))
		})
	}
}
