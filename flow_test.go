package fairlimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// shared is a queue of 20 permits a second.
var shared = fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 4}

// flowOf is a flow in a process of its own.
func flowOf(t *testing.T, server *redistest.MiniServer, id string, weight int) *fairlimit.Queue {
	t.Helper()
	return queueOf(t, server.NewClient(t), "q", shared, fairlimit.WithFlow(id, weight))
}

// busy lets so many callers call again and again until ctx ends, and counts
// what they get.
func busy(ctx context.Context, q *fairlimit.Queue, callers int) (turns func() int) {
	counts := make([]int, callers)
	for i := range counts {
		go func() {
			for q.Wait(ctx) == nil {
				counts[i]++
			}
		}()
	}
	return func() (sum int) {
		<-ctx.Done()
		synctest.Wait()
		for _, n := range counts {
			sum += n
		}
		return sum
	}
}

func TestFlowsShareByTheirWeights(t *testing.T) {
	each(t, map[string]struct {
		callers [2]int
		weights [2]int
		share   float64 // of the first
	}{
		"many callers beside one": {[2]int{60, 1}, [2]int{1, 1}, 0.5},
		"weights of 1 and 3":      {[2]int{10, 10}, [2]int{1, 3}, 0.25},
	}, func(t *testing.T, server *redistest.MiniServer, c struct {
		callers [2]int
		weights [2]int
		share   float64
	},
	) {
		ctx := within(t, 20*time.Second)
		one := busy(ctx, flowOf(t, server, "one", c.weights[0]), c.callers[0])
		other := busy(ctx, flowOf(t, server, "other", c.weights[1]), c.callers[1])
		a, b := float64(one()), float64(other())
		assert.InDelta(t, c.share, a/(a+b), 0.05)
		assert.Greater(t, a+b, 0.95*20*20, "the quota is used")
	})
}

func TestAFlowAloneHasAllOfTheQuota(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		ctx := within(t, 10*time.Second)
		before := within(t, 3*time.Second)
		one, other := busy(ctx, flowOf(t, server, "one", 1), 30), busy(before, flowOf(t, server, "other", 1), 30)
		assert.InDelta(t, 30, other(), 6)
		assert.InDelta(t, 30+7*20, one(), 15, "half a second after the other was idle")
	})
}

// Of 20 a second in ten flows of one process, each has two.
func TestAQueueHasManyFlows(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, ctx := queueOf(t, server.Client, "q", shared), within(t, 30*time.Second)
		var counts []func() int
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j j"} {
			flow, err := q.Flow(id, 1)
			require.NoError(t, err)
			counts = append(counts, busy(ctx, flow, 3))
		}
		for i, count := range counts {
			assert.InDelta(t, 60, count(), 7, "flow %d", i)
		}
		_, err := q.Flow("a", 0)
		require.ErrorIs(t, err, fairlimit.ErrInvalidFlow)
	})
}

func TestWhatAFlowGivesBackMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.Every(10*time.Second))
		one, err := q.Flow("one", 1)
		require.NoError(t, err)
		other, err := q.Flow("other", 1)
		require.NoError(t, err)
		reserve(t, other, 1)
		held := reserve(t, one, 1)
		ctx, leave := context.WithCancel(t.Context())
		without := background(func() error { _, err := one.ReserveN(ctx, 1); return err })
		require.Empty(t, without, "it waits for room in the share of its flow")
		leave()
		require.ErrorIs(t, <-without, context.Canceled)
		require.NoError(t, held.Cancel(t.Context()))
		reserve(t, one, 1)
	})
}
