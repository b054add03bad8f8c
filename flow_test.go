package fairlimit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// tally counts who got a turn, and when.
type tally struct {
	mu    sync.Mutex
	turns map[string][]time.Time
	group sync.WaitGroup
}

func (c *tally) got(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns == nil {
		c.turns = map[string][]time.Time{}
	}
	c.turns[id] = append(c.turns[id], time.Now())
}

func (c *tally) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns[id])
}

// call lets so many callers call again and again until ctx ends.
func (c *tally) call(ctx context.Context, id string, l fairlimit.Limiter, callers int) {
	for range callers {
		c.group.Go(func() {
			for l.Wait(ctx) == nil {
				c.got(id)
			}
		})
	}
}

// waits lets so many callers call once.
func waits(ctx context.Context, l fairlimit.Limiter, callers int) <-chan error {
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- l.Wait(ctx) }()
	}
	return errs
}

func flow(t testing.TB, rdb redis.UniversalClient, id string, weight int, opts ...fairlimit.Option) *fairlimit.Queue {
	t.Helper()
	return flowOf(t, rdb, fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1}, id, weight, opts...)
}

func flowOf(
	t testing.TB, rdb redis.UniversalClient, quota fairlimit.Quota, id string, weight int, opts ...fairlimit.Option,
) *fairlimit.Queue {
	t.Helper()
	q, err := fairlimit.NewQueue(rdb, "shared", quota, append(opts, fairlimit.WithFlow(id, weight))...)
	require.NoError(t, err)
	return q
}

func TestFlowsShareByWeightHoweverManyCallersEachHas(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 16*time.Second)
		defer stop()
		var c tally
		c.call(ctx, "greedy", flow(t, rdb, "greedy", 1), 30)
		c.call(ctx, "heavy", flow(t, rdb, "heavy", 2), 10)
		for range 5 { // several processes of one flow
			c.call(ctx, "many", flow(t, rdb, "many", 1), 10)
		}
		c.group.Wait()
		assert.InDelta(t, 80, c.count("greedy"), 16)
		assert.InDelta(t, 160, c.count("heavy"), 16)
		assert.InDelta(t, 80, c.count("many"), 16)
		assert.GreaterOrEqual(t, c.count("greedy")+c.count("heavy")+c.count("many"), 317, "99 % of 320")
	})
}

func TestOneCallOfANewFlowDoesNotWaitForAThousandOfAnother(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var c tally
		c.call(ctx, "batch", flow(t, rdb, "batch", 1), 1000)
		time.Sleep(3 * time.Second)
		began := time.Now()
		require.NoError(t, flow(t, rdb, "single", 1).Wait(t.Context()))
		assert.LessOrEqual(t, time.Since(began), 450*time.Millisecond, "eight permits, and one that has just gone")
		stop()
		c.group.Wait()
	})
}

func TestAnIdleFlowLeavesItsShareToTheOthersAndComesBackWithItsOwn(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var c tally
		a, b := flow(t, rdb, "a", 1), flow(t, rdb, "b", 1)
		c.call(ctx, "a", a, 10)
		for range 10 {
			require.NoError(t, b.Wait(ctx))
		}
		time.Sleep(10 * time.Second)
		alone := c.count("a")
		assert.GreaterOrEqual(t, alone, 195, "a used what b left")
		both, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		c.call(both, "b", b, 10)
		<-both.Done()
		assert.InDelta(t, 80, c.count("b"), 8, "no credit")
		assert.InDelta(t, 80, c.count("a")-alone, 8, "and no debt")
		stop()
		c.group.Wait()
	})
}

func TestANewWeightCountsFromTheNextQuestionOn(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var c tally
		q := flow(t, rdb, "a", 1)
		c.call(ctx, "a", q, 10)
		c.call(ctx, "b", flow(t, rdb, "b", 1), 10)
		time.Sleep(2 * time.Second)
		_, err := q.Flow("a", 3)
		require.NoError(t, err)
		a, b := c.count("a"), c.count("b")
		assert.InDelta(t, a, b, 8)
		c.group.Wait()
		assert.InDelta(t, 120, c.count("a")-a, 10)
		assert.InDelta(t, 40, c.count("b")-b, 10)
	})
}

func TestManyFlowsOfOneProcessCombineTheirQuestions(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
		defer stop()
		var c tally
		questions := 0
		watch := fairlimit.WithTrace(&fairlimit.Trace{
			Asked: func(op string, _ int, _ time.Duration, err error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				questions++
				assert.NoError(t, err)
			},
		})
		parent, err := fairlimit.NewQueue(rdb, "tenants", fairlimit.PerSecond(100), watch)
		require.NoError(t, err)
		for i := range 1000 {
			q, err := parent.Flow(fmt.Sprint("tenant ", i), 1)
			require.NoError(t, err)
			c.call(ctx, fmt.Sprint(i), q, 2)
		}
		c.group.Wait()
		least, most, sum := 1<<30, 0, 0
		for i := range 1000 {
			got := c.count(fmt.Sprint(i))
			least, most, sum = min(least, got), max(most, got), sum+got
		}
		assert.GreaterOrEqual(t, sum, 1188, "99 % of 1,200")
		assert.LessOrEqual(t, questions, 1000)
		t.Logf("each of 1000 flows got %d to %d of %d permits, in %d questions", least, most, sum, questions)
	})
}

func TestCallersOfOneFlowKeepTheirOrder(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var c tally
		c.call(ctx, "other", flow(t, rdb, "other", 1), 5)
		q := flow(t, rdb, "ordered", 1)
		went := make(chan int, 60)
		for i := range 60 {
			ctx := ctx
			if i%7 == 3 { // some leave, from the line or from their sleep
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				time.AfterFunc(time.Duration(i)*50*time.Millisecond, cancel)
			}
			c.group.Go(func() {
				if q.Wait(ctx) == nil {
					went <- i
				}
			})
			time.Sleep(time.Microsecond)
		}
		last := -1
		for range 50 {
			next := <-went
			assert.Greater(t, next, last)
			last = next
		}
		stop()
		c.group.Wait()
		require.Eventually(t, func() bool {
			s, err := q.Status(t.Context())
			return err == nil && s.Queued == 0
		}, time.Minute, time.Second)
	})
}
