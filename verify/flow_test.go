package verify

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit/engine"
)

// Flows share the queue: strict, in order, everybody goes, and who is refused for
// its share leaves nothing.
func TestFlows(t *testing.T) {
	s := newServer(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, s)
		for i := range rapid.IntRange(2, 4).Draw(t, "flows") {
			queue := w.limit.engine(t, s.client).Flow(fmt.Sprint("flow", i), rapid.IntRange(1, 3).Draw(t, "weight"))
			w.limiters = append(w.limiters, &limiter{world: w, queue: queue, isFlow: true})
		}
		t.Repeat(w.actions())
		w.end()
	})
}

// However long the line of one flow is, another one gets its share.
func TestFlowsShare(t *testing.T) {
	s := newServer(t)
	rapid.Check(t, func(t *rapid.T) {
		s.begin()
		permits := rapid.IntRange(5, 40).Draw(t, "permits")
		w := &world{server: s, t: t, limit: &limit{quotas: []engine.Quota{{Permits: permits, Per: time.Second}}}}
		weights := []int{rapid.IntRange(1, 3).Draw(t, "weight"), rapid.IntRange(1, 3).Draw(t, "weight")}
		for i, weight := range weights {
			queue := w.limit.engine(t, s.client).Flow(fmt.Sprint("flow", i), weight)
			w.limiters = append(w.limiters, &limiter{world: w, queue: queue, isFlow: true})
		}
		for i, l := range w.limiters {
			for range []int{100, 20}[i] {
				l.call(&caller{Request: engine.Request{N: 1, MaxWait: engine.Forever}, n: []int{1}})
			}
		}
		w.let(20 * second)
		// While the second flow has callers, it gets its part.
		gone, total := 0, 0
		for _, g := range w.went {
			if total++; g.of == w.limiters[1] {
				gone++
			}
			if gone == 20 {
				break
			}
		}
		require.Equal(t, 20, gone)
		share := float64(weights[1]) / float64(weights[0]+weights[1])
		require.LessOrEqual(t, float64(total-3*permits), 1.25*20/share, "of %d turns, 20 were of the second flow", total)
	})
}
