package fairlimit_test

import (
	"context"
	"fmt"
	"slices"
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

// widest is by how many permits two came to differ over any interval from one
// moment to another, each weighed.
func (c *tally) widest(from, to time.Time, one string, weight int, other string, itsWeight int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	type turn struct {
		at time.Time
		by int
	}
	var turns []turn
	for _, at := range c.turns[one] {
		turns = append(turns, turn{at, itsWeight})
	}
	for _, at := range c.turns[other] {
		turns = append(turns, turn{at, -weight})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) })
	difference, least, most := 0, 0, 0
	for _, t := range turns {
		if t.at.Before(from) || t.at.After(to) {
			continue
		}
		difference += t.by
		least, most = min(least, difference), max(most, difference)
	}
	return most - least
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
	q, err := fairlimit.NewQueue(rdb, "shared", quota, append(opts, fairlimit.WithGuard(0), fairlimit.WithFlow(id, weight))...)
	require.NoError(t, err)
	return q
}

func TestFlowsShareByWeightHoweverManyCallersEachHas(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 16*time.Second)
		defer stop()
		var c tally
		settled := time.Now().Add(4 * time.Second)
		c.call(ctx, "greedy", flow(t, rdb, "greedy", 1), 30)
		c.call(ctx, "heavy", flow(t, rdb, "heavy", 2), 10)
		for range 5 { // several processes of one flow
			c.call(ctx, "many", flow(t, rdb, "many", 1), 10)
		}
		c.group.Wait()
		assert.LessOrEqual(t, c.widest(settled, time.Now(), "greedy", 1, "many", 1), 5,
			"a share, one permit for each process")
		assert.LessOrEqual(t, c.widest(settled, time.Now(), "greedy", 1, "heavy", 2), 10, "twice as many")
		assert.GreaterOrEqual(t, c.count("greedy")+c.count("heavy")+c.count("many"), 317, "99 % of 320")
	})
}

func TestFiftyCallersOfOneFlowGetAsMuchAsEachOfNineSingleOnes(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		each := redistest.Long(28, 80) // two a second
		ctx, stop := context.WithTimeout(t.Context(), time.Duration(each)*time.Second/2)
		defer stop()
		var c tally
		settled := time.Now().Add(4 * time.Second)
		c.call(ctx, "0", flow(t, rdb, "0", 1), 50)
		for i := range 9 {
			c.call(ctx, fmt.Sprint(i+1), flow(t, rdb, fmt.Sprint(i+1), 1), 1)
		}
		c.group.Wait()
		for i := range 9 {
			single := fmt.Sprint(i + 1)
			assert.LessOrEqual(t, c.widest(settled, time.Now(), "0", 1, single, 1), 1, "a share")
			assert.InDelta(t, each, c.count(single), 2)
		}
		assert.InDelta(t, each, c.count("0"), 8, "and the look-ahead that it had alone")
	})
}

func TestAFlowWithOneCallerHoldsOnePermitAheadWhateverItsShare(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		seconds := redistest.Long(11, 21)
		counts := func(opts ...fairlimit.Option) (many, single int) {
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
			defer stop()
			var c tally
			c.call(ctx, "many", flow(t, rdb, "many", 1, opts...), 50)
			c.call(ctx, "single", flow(t, rdb, "single", 1, opts...), 1)
			c.group.Wait()
			return c.count("many"), c.count("single")
		}
		many, single := counts(fairlimit.WithLookAhead(40))
		assert.InDelta(t, seconds*20*20/21, many, 25, "twenty of them go")
		assert.InDelta(t, seconds*20/21, single, 3, "while one can")
		time.Sleep(time.Minute)
		many, single = counts(fairlimit.WithLookAhead(2))
		assert.InDelta(t, many, single, 3)
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
		back := time.Now()
		c.call(both, "b", b, 10)
		<-both.Done()
		assert.LessOrEqual(t, c.widest(back.Add(time.Second), time.Now(), "a", 1, "b", 1), 4, "neither credit nor debt")
		assert.LessOrEqual(t, c.widest(back, time.Now(), "a", 1, "b", 1), 4+8, "and what a held when b came")
		assert.GreaterOrEqual(t, c.count("a")-alone+c.count("b"), 158)
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
		changed := time.Now()
		assert.LessOrEqual(t, c.widest(changed.Add(-time.Second), changed, "a", 1, "b", 1), 4)
		c.group.Wait()
		assert.LessOrEqual(t, c.widest(changed.Add(time.Second), time.Now(), "a", 3, "b", 1), 6, "a share of a is six")
	})
}

func TestManyFlowsOfOneProcessCombineTheirQuestions(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
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
		const flows = 300
		parent, err := fairlimit.NewQueue(rdb, "tenants", fairlimit.PerSecond(100), watch, fairlimit.WithGuard(0))
		require.NoError(t, err)
		for i := range flows {
			q, err := parent.Flow(fmt.Sprint("tenant ", i), 1)
			require.NoError(t, err)
			c.call(ctx, fmt.Sprint(i), q, 2)
		}
		c.group.Wait()
		least, most, sum := 1<<30, 0, 0
		for i := range flows {
			got := c.count(fmt.Sprint(i))
			least, most, sum = min(least, got), max(most, got), sum+got
		}
		assert.GreaterOrEqual(t, sum, 396, "99 % of 400")
		assert.LessOrEqual(t, questions, sum+sum/10)
		t.Logf("each of %d flows got %d to %d of %d permits, in %d questions", flows, least, most, sum, questions)
	})
}

// TestFlowsThatShareEntriesGetAsMuchEach has more flows than the state tells
// apart.
func TestFlowsThatShareEntriesGetAsMuchEach(t *testing.T) {
	t.Parallel()
	const flows, rate = 300, 100
	for lookAhead, longest := range map[int]int{
		2 * rate: 2 * rate * flows / 64, // the default: three permits for each
		64:       flows,                 // one for each
	} {
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
			settle, seconds := redistest.Long(8, 15), redistest.Long(11, 30)
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(settle+seconds)*time.Second)
			defer stop()
			var c tally
			parent, err := fairlimit.NewQueue(rdb, "tenants", fairlimit.PerSecond(rate), fairlimit.WithGuard(0),
				fairlimit.WithLookAhead(lookAhead))
			require.NoError(t, err)
			for i := range flows {
				q, err := parent.Flow(fmt.Sprint(i), 1)
				require.NoError(t, err)
				c.call(ctx, fmt.Sprint(i), q, 4)
			}
			time.Sleep(time.Duration(settle) * time.Second)
			from := make([]int, flows)
			for i := range from {
				from[i] = c.count(fmt.Sprint(i))
			}
			newer, err := parent.Flow("newer", 1)
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, newer.Wait(ctx))
			waited := time.Since(began)
			c.group.Wait()
			least, most, sum := 1<<30, 0, 0
			for i := range from {
				got := c.count(fmt.Sprint(i)) - from[i]
				least, most, sum = min(least, got), max(most, got), sum+got
			}
			t.Logf("look-ahead %d: a new one of %d flows waited %v; in %d s each got %d to %d",
				lookAhead, flows, waited, seconds, least, most)
			assert.LessOrEqual(t, waited, time.Duration(longest+rate)*time.Second/rate,
				"and those who go at one moment")
			assert.LessOrEqual(t, most-least, 1+longest/flows)
			assert.GreaterOrEqual(t, sum, seconds*rate*99/100)
		})
	}
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
