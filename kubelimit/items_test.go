package kubelimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/kubelimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	limiter = limitertest.Alone
	status  = limitertest.Status
)

// TestItemsOfTwoQueuesComeInTheirTurns has two processes' work queues, one
// quota, and every item no earlier than its turn.
func TestItemsOfTwoQueuesComeInTheirTurns(t *testing.T) {
	const every = 100 * time.Millisecond
	rdb, name := redistest.Mini(t).Client, redistest.Name(t)
	queues := make([]workqueue.TypedRateLimitingInterface[int], 2)
	for i := range queues {
		l := limitertest.Named(t, rdb, name, fairlimit.Every(every))
		queues[i] = workqueue.NewTypedRateLimitingQueue(&kubelimit.ItemRateLimiter[int]{
			Reserver: l, OnError: func(err error) { t.Error(err) },
		})
		t.Cleanup(queues[i].ShutDown)
	}
	start := time.Now()
	for item := range 6 {
		queues[item%2].AddRateLimited(item)
	}
	for item := range 6 {
		got, shutdown := queues[item%2].Get()
		require.False(t, shutdown)
		assert.Equal(t, item, got)
		assert.GreaterOrEqual(t, time.Since(start), time.Duration(item)*every)
		assert.Equal(t, 1, queues[item%2].NumRequeues(item))
		queues[item%2].Forget(item)
		assert.Zero(t, queues[item%2].NumRequeues(item))
		queues[item%2].Done(item)
	}
}

func TestAnItemThatComesAgainTakesAnotherTurn(t *testing.T) {
	l := limiter(t, fairlimit.Every(time.Hour), fairlimit.WithMaxWait(2*time.Hour))
	var told error
	items := &kubelimit.ItemRateLimiter[string]{Reserver: l, OnError: func(err error) { told = err }}
	assert.Zero(t, items.When("a"))
	assert.Equal(t, time.Hour, items.When("a").Round(time.Minute))
	assert.Equal(t, 2*time.Hour, items.When("b").Round(time.Minute))
	require.NoError(t, told)
	assert.Equal(t, 3*time.Hour, items.When("c").Round(time.Minute), "its turn would have come then")
	require.ErrorAs(t, told, new(*fairlimit.RefusedError))
	items.Forget("a")
	items.Forget("d")
	for item, requeues := range map[string]int{"a": 0, "b": 1, "c": 1, "d": 0} {
		assert.Equal(t, requeues, items.NumRequeues(item), item)
	}
	assert.Equal(t, 2, status(t, l).Queued, "the turns stay")
}

func TestWhileRedisIsAwayItemsBackOff(t *testing.T) {
	l := limitertest.New(t, redistest.Nowhere(t), fairlimit.PerSecond(5))
	var told []error
	items := &kubelimit.ItemRateLimiter[string]{Reserver: l, OnError: func(err error) { told = append(told, err) }}
	assert.Equal(t, time.Second, items.When("a"))
	assert.Equal(t, 2*time.Second, items.When("a"))
	assert.Equal(t, time.Second, items.When("b"))
	items.Forget("a")
	assert.Equal(t, time.Second, items.When("a"))
	require.Len(t, told, 4)
	require.ErrorIs(t, told[0], fairlimit.ErrUnreachable)

	fast := workqueue.NewTypedItemFastSlowRateLimiter[string](time.Millisecond, time.Hour, 1)
	items = &kubelimit.ItemRateLimiter[string]{Otherwise: fast, OnError: func(err error) { told = append(told, err) }}
	assert.Equal(t, time.Millisecond, items.When("a"))
	assert.Equal(t, time.Hour, items.When("a"))
	require.ErrorIs(t, told[4], fairlimit.ErrInvalidOption, "no Reserver")
}
