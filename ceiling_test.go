package fairlimit_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// distance is a client's way to the server: what a question takes, half of it
// each way. It counts them.
type distance struct {
	trip  time.Duration
	count *atomic.Int64
}

func (d distance) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d distance) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			d.count.Add(1)
		}
		time.Sleep(d.trip / 2)
		defer time.Sleep(d.trip / 2)
		return next(ctx, cmd)
	}
}

func (d distance) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A flow gets what its ceiling allows: beside a flow that takes all it can get,
// in several processes however far they are, and if it asks just when its queue
// ends. It does not poll.
func TestAFlowGetsWhatItsCeilingAllows(t *testing.T) {
	t.Parallel()
	const second, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		quota, ceiling fairlimit.Quota
		greedy         bool
		far            []time.Duration // of each process of the flow
		least          float64         // of the ceiling
	}{
		"beside a greedy flow, even":   {fairlimit.Every(100 * ms), fairlimit.PerSecond(5), true, []time.Duration{ms}, .95},
		"beside a greedy flow":         {fairlimit.PerSecond(10), fairlimit.PerSecond(4), true, []time.Duration{ms}, .9},
		"beside a greedy flow, seldom": {fairlimit.Every(second), fairlimit.Every(4 * second), true, []time.Duration{ms}, .9},
		"alone":                        {fairlimit.PerSecond(10), fairlimit.Every(5 * second), false, []time.Duration{7 * ms}, .97},
		"two processes":                {fairlimit.PerSecond(10), fairlimit.PerSecond(2), false, []time.Duration{3 * ms, 3 * ms}, .97},
		"near and far":                 {fairlimit.PerSecond(10), fairlimit.PerSecond(2), false, []time.Duration{ms, 5 * ms}, .97},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Bubble(t, func(t *testing.T, _ *redis.Client) {
				server, during := redistest.Mini(t), 100*c.ceiling.Per
				ctx, stop := context.WithTimeout(t.Context(), during)
				defer stop()
				var turns tally
				count := new(atomic.Int64)
				process := func(id string, far time.Duration, opts ...fairlimit.Option) {
					rdb := server.NewClient(t)
					rdb.AddHook(distance{far, count})
					q, err := fairlimit.NewQueue(rdb, "used", c.quota, fairlimit.WithGuard(0))
					require.NoError(t, err)
					q, err = q.Flow(strings.Fields(id)[0], 1, opts...)
					require.NoError(t, err)
					turns.again(ctx, id, q, 10, ms)
				}
				for i, far := range c.far {
					process(fmt.Sprint("a ", i), far, fairlimit.WithFlowQuota(c.ceiling))
				}
				if c.greedy {
					process("greedy", ms)
				}
				turns.group.Wait()
				all, own := turns.count("greedy"), 0
				for i := range c.far {
					n := turns.count(fmt.Sprint("a ", i))
					own += n
					assert.Greater(t, n, 10, "process %d of %d", i, len(c.far))
				}
				possible := float64(c.ceiling.Permits) * float64(during) / float64(c.ceiling.Per)
				t.Logf("%d and %d turns, %.3f of the ceiling, %d questions", own, all, float64(own)/possible, count.Load())
				assert.GreaterOrEqual(t, float64(own), c.least*possible)
				assert.LessOrEqual(t, float64(own), possible+float64(c.ceiling.Permits))
				assert.LessOrEqual(t, int(count.Load()), 2*all+(3+len(c.far))*own)
				if c.greedy {
					whole := float64(c.quota.Permits) * float64(during) / float64(c.quota.Per)
					assert.GreaterOrEqual(t, float64(all+own), .97*whole, "the quota is used")
				}
			})
		})
	}
}

// heldBack is a flow whose ceiling is used up for an hour, and callers that wait.
func heldBack(t *testing.T, rdb redis.UniversalClient, callers int) (*fairlimit.Queue, <-chan error) {
	t.Helper()
	q, err := fairlimit.NewQueue(rdb, "held", fairlimit.PerSecond(10), fairlimit.WithGuard(0))
	require.NoError(t, err)
	q, err = q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.PerHour(1)))
	require.NoError(t, err)
	require.NoError(t, q.Wait(t.Context()))
	held := waits(t.Context(), q, callers)
	time.Sleep(time.Second)
	return q, held
}

// Whoever is held back goes as soon as nothing holds it back any more, if that
// is known in its process, and within a minute if it is not.
func TestWhatHoldsAFlowBackEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		what   func(*testing.T, *fairlimit.Queue)
		within time.Duration
	}{
		"reset": {func(t *testing.T, q *fairlimit.Queue) { require.NoError(t, q.Reset(t.Context())) }, 100 * time.Millisecond},
		"stored": {func(t *testing.T, q *fairlimit.Queue) {
			require.NoError(t, q.SetQuotas(t.Context(), fairlimit.PerSecond(2)))
		}, 100 * time.Millisecond},
		"pause and reset": {func(t *testing.T, q *fairlimit.Queue) {
			require.NoError(t, q.Pause(t.Context(), time.Hour))
			require.NoError(t, q.Reset(t.Context()))
		}, 100 * time.Millisecond},
	} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", elsewhere: ", elsewhere), func(t *testing.T) {
				t.Parallel()
				redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
					q, held := heldBack(t, rdb, 1)
					if within := c.within; elsewhere {
						other, err := fairlimit.NewQueue(rdb, "held", fairlimit.PerSecond(10), fairlimit.WithGuard(0))
						require.NoError(t, err)
						other, err = other.Flow("a", 1)
						require.NoError(t, err)
						c.within = time.Minute + within
						q = other
					}
					start := time.Now()
					c.what(t, q)
					require.NoError(t, <-held)
					require.LessOrEqual(t, time.Since(start), c.within)
				})
			})
		}
	}
}

func TestPermitsOfAFlowThatComeBackEndItsWait(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, err := fairlimit.NewQueue(rdb, "back", fairlimit.Every(time.Second), fairlimit.WithGuard(0))
		require.NoError(t, err)
		other, err := q.Flow("other", 1)
		require.NoError(t, err)
		q, err = q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.PerHour(1)))
		require.NoError(t, err)
		require.NoError(t, other.Wait(t.Context()))
		reservation, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		start, held := time.Now(), waits(t.Context(), q, 1)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, reservation.Cancel(t.Context()))
		require.NoError(t, <-held)
		require.Less(t, time.Since(start), 3*time.Second)
	})
}

// A caller that comes while others are held back hears at once that it comes too
// late. If nobody is left in line, the next caller asks.
func TestACallerBehindThoseWhoAreHeldBackIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, _ := heldBack(t, rdb, 0)
		others, leave := context.WithCancel(t.Context())
		held := waits(others, q, 3)
		time.Sleep(time.Second)
		refused := func() (err *fairlimit.RefusedError) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			require.ErrorAs(t, q.Wait(ctx), &err)
			require.Less(t, time.Since(start), time.Millisecond)
			return err
		}
		require.ErrorContains(t, refused(), "by the quota of its flow")
		leave()
		for range 3 {
			require.ErrorIs(t, <-held, context.Canceled)
		}
		require.Greater(t, refused().Wait, time.Hour-time.Minute, "it has asked")
		require.NoError(t, q.Pause(t.Context(), 2*time.Hour))
		require.ErrorIs(t, refused(), fairlimit.ErrPaused)
	})
}

// A ceiling that was stored and forgotten binds nobody who has heard of it.
func TestACallThatDoesNotFitAsksWhetherItFitsByNow(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, a, elsewhere := t.Context(), tenant(t, rdb, "a"), tenant(t, rdb, "a")
		require.NoError(t, a.SetQuotas(ctx, fairlimit.PerSecond(1)))
		require.NoError(t, elsewhere.Wait(ctx))
		require.ErrorIs(t, elsewhere.WaitN(ctx, 2), fairlimit.ErrExceedsQuota)
		require.NoError(t, a.ForgetQuotas(ctx))
		require.NoError(t, elsewhere.WaitN(ctx, 2))
		require.ErrorIs(t, elsewhere.WaitN(ctx, 3), fairlimit.ErrExceedsQuota)
		require.NoError(t, a.SetQuotas(ctx, fairlimit.PerSecond(5)))
		require.NoError(t, elsewhere.WaitN(ctx, 5))
	})
}
