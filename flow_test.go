package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func (c *tally) count(id string) int { return c.countSince(time.Time{}, id) }

func (c *tally) countSince(start time.Time, id string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.turns[id] {
		if !at.Before(start) {
			n++
		}
	}
	return n
}

// call lets so many callers call again and again until ctx ends.
func (c *tally) call(ctx context.Context, id string, l fairlimit.Limiter, callers int) {
	c.again(ctx, id, l, callers, 0)
}

// again is call, with a pause after each turn.
func (c *tally) again(ctx context.Context, id string, l fairlimit.Limiter, callers int, pause time.Duration) {
	for range callers {
		c.group.Go(func() {
			for l.Wait(ctx) == nil {
				c.got(id)
				time.Sleep(pause)
			}
		})
	}
}

// waits lets so many callers call once, one after the other.
func waits(ctx context.Context, l fairlimit.Limiter, callers int) <-chan error {
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- l.Wait(ctx) }()
		synctest.Wait()
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
	opts = append(opts, fairlimit.WithGuard(0), fairlimit.WithFlow(id, weight))
	q, err := fairlimit.NewQueue(rdb, "shared", quota, opts...)
	require.NoError(t, err)
	return q
}

func TestACallerOfAFlowIsRefusedAtOnceOnlyIfTheWholeQuotaWouldNotDo(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var c tally
		quota := fairlimit.Every(50 * time.Millisecond)
		c.call(ctx, "other", flowOf(t, rdb, quota, "other", 1), 10)
		time.Sleep(time.Second)
		began := time.Now()
		errs := waits(t.Context(), flowOf(t, rdb, quota, "q", 1, fairlimit.WithMaxWait(2*time.Second)), 100)
		went, atOnce := 0, 0
		for range 100 {
			err := <-errs
			waited := time.Since(began)
			assert.LessOrEqual(t, waited, 2*time.Second)
			switch {
			case err == nil:
				went++
			case assert.ErrorAs(t, err, new(*fairlimit.RefusedError)) && waited == 0:
				atOnce++
			}
		}
		assert.InDelta(t, 16, went, 2, "half of the quota, after one look-ahead, up to two seconds")
		assert.GreaterOrEqual(t, atOnce, 45, "the line alone was too long for them")
		stop()
		c.group.Wait()
	})
}

func TestAllowOfAFlowTakesNoShareOfOthers(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := flow(t, rdb, "q", 1)
		ok, err := q.Allow(t.Context())
		require.NoError(t, err)
		require.True(t, ok, "nobody is there")
		ok, err = q.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, ok, "it is not due")
		began := time.Now()
		for range 8 {
			_, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		assert.Zero(t, time.Since(began), "all of its share: what was allowed has passed")

		ctx := within(t, 5*time.Second)
		var c tally
		c.call(ctx, "other", flow(t, rdb, "other", 1), 10)
		time.Sleep(time.Second)
		allowed := 0
		for ctx.Err() == nil {
			if ok, _ := q.Allow(ctx); ok {
				allowed++
			}
			time.Sleep(20 * time.Millisecond)
		}
		c.group.Wait()
		assert.LessOrEqual(t, allowed, 5)
		assert.GreaterOrEqual(t, c.count("other"), 90)
	})
}

func TestReservationsOfAFlowCountUntilTheirSlot(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var c tally
		eight := fairlimit.WithLookAhead(8)
		c.call(ctx, "other", flow(t, rdb, "other", 1, eight), 10)
		time.Sleep(time.Second)
		q := flow(t, rdb, "q", 1, eight)
		var held []*fairlimit.Reservation
		for range 4 {
			r, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			held = append(held, r)
		}
		next := func() time.Duration {
			began := time.Now()
			r, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			held = append(held, r)
			return time.Since(began)
		}
		slept := held[0].Delay()
		assert.Equal(t, slept, next(), "four are its share, so a fifth waits for the first slot")
		assert.Positive(t, slept)
		require.NoError(t, held[2].Cancel(t.Context()))
		assert.Zero(t, next(), "one was given back")
		require.NoError(t, held[1].Wait(t.Context()))
		assert.Zero(t, next(), "one has gone")
		stop()
		c.group.Wait()
		time.Sleep(time.Minute)
	})
}

func TestMaxQueuedCountsTheLineOfAFlow(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := flow(t, rdb, "a", 1, fairlimit.WithMaxQueued(30))
		other, err := q.Flow("b", 1)
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		errs := waits(ctx, q, 31)
		require.NoError(t, <-errs, "one was due")
		require.ErrorIs(t, q.Wait(ctx), fairlimit.ErrTooManyQueued)
		require.NoError(t, other.Wait(ctx), "another flow counts its own")
		stop()
		for range 30 {
			<-errs
		}
	})
}

// lost is late, and loses every answer as well.
type lost struct{ late }

func (l lost) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	held := l.late.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		_ = held(ctx, cmd)
		cmd.SetErr(io.EOF)
		return io.EOF
	}
}

// A refusal says that nothing was consumed.
func TestACallerOfAFlowWhoseAnswerIsLostAsItsWaitEndsIsNotRefused(t *testing.T) {
	t.Parallel()
	for what, by := range map[string]time.Duration{"as it ends": 0, "shortly after": 10 * time.Millisecond} {
		t.Run(what, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				client := redis.NewClient(rdb.Options())
				defer func() { assert.NoError(t, client.Close()) }()
				q := flow(t, client, "a", 1, fairlimit.WithMaxWait(time.Second))
				require.NoError(t, q.Wait(t.Context())) // the script is there
				client.AddHook(lost{late{by: time.Second + by}})
				err := q.Wait(t.Context())
				require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
				require.NotErrorAs(t, err, new(*fairlimit.RefusedError))
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestFlowsAreCheckedWhereTheyAreMade(t *testing.T) {
	rdb := redistest.Nowhere(t)
	q, err := fairlimit.NewQueue(rdb, "a", fairlimit.PerSecond(1), fairlimit.WithLookAhead(9))
	require.NoError(t, err)
	for _, c := range []struct {
		id     string
		weight int
	}{{"", 1}, {"a", 0}, {"a", -1}, {"a", 1001}} {
		_, err = q.Flow(c.id, c.weight)
		require.ErrorIs(t, err, fairlimit.ErrInvalidFlow)
		_, err = fairlimit.New(rdb, "a", fairlimit.PerSecond(1), fairlimit.WithFlow(c.id, c.weight))
		require.ErrorIs(t, err, fairlimit.ErrInvalidFlow)
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
	}
	for _, option := range []fairlimit.Option{
		nil, fairlimit.WithMaxWait(1), fairlimit.WithFlow("b", 1), fairlimit.WithTrace(&fairlimit.Trace{}),
	} {
		_, err = q.Flow("a", 1, option)
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
	}
	_, err = q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.Quota{}))
	require.ErrorIs(t, err, fairlimit.ErrInvalidQuota)
	_, err = q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.Quota{Permits: 2_000_000_000, Per: time.Second}))
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
}

// party is the callers of one flow. Each of their turns takes some amounts, and
// uses others if they are told.
type party struct {
	callers, weight int
	takes, uses     amounts
	pause           time.Duration // of each caller after each turn
}

func (p party) call(ctx context.Context, t *testing.T, q *fairlimit.Queue, id string, all *tally) {
	for range p.callers {
		all.group.Go(func() {
			for {
				turn, err := q.Take(ctx, p.takes)
				if err != nil {
					return
				}
				all.got(id)
				if p.uses != nil {
					assert.NoError(t, turn.Settle(t.Context(), p.uses))
				}
				time.Sleep(p.pause)
			}
		})
	}
}

// tokens are those that so many turns use.
func (p party) tokens(turns int) float64 {
	return float64(turns * max(p.takes["tokens"], p.uses["tokens"]))
}

// A share does not depend on how many callers a flow has, nor on the shape of the
// quota. Of several units the one counts of which a flow takes most: one call is
// a sixtieth of a minute, and 100 tokens a tenth. A debt counts as well: a flow
// whose turns use three times what they reserved gets 1.2 to 1.4 times as many
// tokens, since it can always hold one request, and else three times as many. What
// one flow took before the other one came does not count.
func TestFlowsShareTheQuota(t *testing.T) {
	t.Parallel()
	even, bursts, minute := fairlimit.Every(50*time.Millisecond), fairlimit.PerSecond(20), fairlimit.PerMinute(60)
	burst := fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 5}
	calls := func(callers, weight int) party { return party{callers, weight, nil, nil, 10 * time.Millisecond} }
	many, heavy, one, three := calls(200, 1), calls(200, 3), calls(1, 1), calls(3, 1)
	takes := func(callers, tokens int) party { return party{callers, 1, amounts{"tokens": tokens}, nil, 0} }
	uses := func(tokens int) party { return party{10, 1, amounts{"tokens": tokens}, amounts{"tokens": 150}, 0} }
	for name, c := range map[string]struct {
		quota       fairlimit.Quota
		many, few   party
		least, most float64 // turns of the many, for one of the few: one caller has 40 % at least
	}{
		"even, one caller":             {even, many, one, 0.9, 1.5},
		"even, three callers":          {even, heavy, three, 2.7, 3.4},
		"in bursts, one caller":        {bursts, many, one, 0.9, 1.5},
		"in bursts, three callers":     {bursts, heavy, three, 2.7, 3.4},
		"with a burst, one caller":     {burst, many, one, 0.9, 1.5},
		"with a burst, three callers":  {burst, heavy, three, 2.7, 3.4},
		"calls beside tokens":          {minute, takes(40, 0), takes(2, 100), 5.4, 6.6},
		"tokens beside calls":          {minute, takes(40, 100), takes(12, 0), 0.15, 0.183},
		"tokens beside tokens":         {minute, takes(40, 50), takes(2, 50), 0.9, 1.1},
		"more tokens beside less":      {minute, takes(40, 50), takes(2, 100), 1.8, 2.2},
		"a debt beside a good reserve": {minute, uses(50), uses(150), 0.4, 1.6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				whole := c.quota.Per * time.Duration(600/c.quota.Permits)
				ctx, start := within(t, whole), time.Now().Add(whole*3/10)
				var all tally
				var q *fairlimit.Queue
				for id, p := range map[string]party{"many": c.many, "few": c.few} {
					if q == nil || p.takes == nil { // a process for each, or one for both
						var opts []fairlimit.Option
						if p.takes != nil {
							opts = append(opts, fairlimit.WithUnit("tokens", fairlimit.PerMinute(1000)))
						}
						q = queueOf(t, rdb, "shared", c.quota, opts...)
					}
					flow, err := q.Flow(id, 1)
					require.NoError(t, err)
					_, err = q.Flow(id, p.weight)
					require.NoError(t, err, "the newest weight counts")
					p.call(ctx, t, flow, id, &all)
				}
				all.group.Wait()
				many, few := all.count("many"), all.count("few")
				used := max(float64(many+few)/600, (c.many.tokens(many)+c.few.tokens(few))/10_000)
				share := float64(all.countSince(start, "many")) / float64(all.countSince(start, "few"))
				t.Logf("%d and %d, then %.3f of each other, %.1f %% used", many, few, share, 100*used)
				assert.GreaterOrEqual(t, share, c.least)
				assert.LessOrEqual(t, share, c.most)
				assert.GreaterOrEqual(t, used, 0.97)
			})
		})
	}
}

// tenant is a flow of a queue of 10 a second, with a ceiling of 2 a second.
func tenant(t testing.TB, rdb redis.UniversalClient, id string) *fairlimit.Queue {
	t.Helper()
	q, err := fairlimit.NewQueue(rdb, "tenants", fairlimit.PerSecond(10), fairlimit.WithGuard(0))
	require.NoError(t, err)
	q, err = q.Flow(id, 1, fairlimit.WithFlowQuota(fairlimit.PerSecond(2)))
	require.NoError(t, err)
	return q
}

func TestACallThatItsCeilingRefusesHearsOfIt(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := tenant(t, rdb, "a")
		_, err := q.Flow("a", 2) // which leaves the ceiling as it is
		require.NoError(t, err)
		require.ErrorIs(t, q.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
		require.NoError(t, q.WaitN(t.Context(), 2))
		ok, err := q.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, ok)
		start := time.Now()
		ctx := within(t, 500*time.Millisecond)
		err = q.Wait(ctx)
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "by the quota of its flow")
		require.Less(t, time.Since(start), 100*time.Millisecond, "at once")
		require.InDelta(t, 1, refused.Wait.Seconds(), 0.1)
		require.NoError(t, tenant(t, rdb, "b").Wait(ctx), "another tenant has room")
	})
}

func TestATenantIsSteeredAlone(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		a, b, elsewhere := tenant(t, rdb, "a"), tenant(t, rdb, "b"), tenant(t, rdb, "a")
		ctx, start := t.Context(), time.Now()
		available := func(q *fairlimit.Queue, permits int, delay time.Duration) {
			t.Helper()
			status, err := q.Status(ctx)
			require.NoError(t, err)
			require.Equal(t, permits, status.Available)
			require.InDelta(t, delay.Seconds(), status.Delay.Seconds(), 0.1)
		}
		available(a, 2, 0)
		require.NoError(t, a.WaitN(ctx, 2))
		available(elsewhere, 0, time.Second)

		held := waits(ctx, a, 3)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, a.Pause(ctx, 10*time.Second))
		require.NoError(t, b.Wait(ctx))
		require.Less(t, time.Since(start), 2*time.Second, "the others go on")
		available(elsewhere, 0, 10*time.Second)
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, elsewhere.Wait(soon), fairlimit.ErrPaused)
		require.NoError(t, <-held)
		require.GreaterOrEqual(t, time.Since(start), 10500*time.Millisecond)
		require.NoError(t, <-held)
		require.NoError(t, <-held)

		require.ErrorIs(t, a.SetQuotas(ctx, fairlimit.PerSecond(1), fairlimit.PerHour(9)), fairlimit.ErrInvalidQuota)
		require.NoError(t, a.SetQuotas(ctx, fairlimit.Every(3*time.Second)))
		time.Sleep(5 * time.Second)
		unknowing, err := queueOf(t, rdb, "tenants", fairlimit.PerSecond(10)).Flow("a", 1)
		require.NoError(t, err)
		available(unknowing, 1, 0)
		start = time.Now()
		for range 3 {
			require.NoError(t, elsewhere.Wait(ctx))
		}
		require.InDelta(t, 6, time.Since(start).Seconds(), 0.2)
	})
}

// A caller that holds a turn when its flow is paused gives it back.
func TestAPauseOfAFlowHoldsItsCallersThatSleep(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, err := fairlimit.NewQueue(rdb, "sleeping", fairlimit.PerSecond(1), fairlimit.WithGuard(0))
		require.NoError(t, err)
		a, err := q.Flow("a", 1)
		require.NoError(t, err)
		require.NoError(t, a.Wait(t.Context()))
		start, held := time.Now(), waits(t.Context(), a, 1)
		require.NoError(t, a.Pause(t.Context(), 5*time.Second))
		require.NoError(t, <-held)
		require.GreaterOrEqual(t, time.Since(start), 5*time.Second)
	})
}

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
	every, perSecond := fairlimit.Every, fairlimit.PerSecond
	type far []time.Duration // of each process of the flow
	for name, c := range map[string]struct {
		quota, ceiling fairlimit.Quota
		greedy         bool
		far            far
		least          float64 // of the ceiling
	}{
		"beside a greedy flow, even":   {every(100 * ms), perSecond(5), true, far{ms}, .95},
		"beside a greedy flow":         {perSecond(10), perSecond(4), true, far{ms}, .9},
		"beside a greedy flow, seldom": {every(second), every(4 * second), true, far{ms}, .9},
		"alone":                        {perSecond(10), every(5 * second), false, far{7 * ms}, .97},
		"two processes":                {perSecond(10), perSecond(2), false, far{3 * ms, 3 * ms}, .97},
		"near and far":                 {perSecond(10), perSecond(2), false, far{ms, 5 * ms}, .97},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Bubble(t, func(t *testing.T, _ *redis.Client) {
				server, during := redistest.Mini(t), 100*c.ceiling.Per
				ctx := within(t, during)
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
				t.Logf("%d and %d turns, %.3f of the ceiling, %d questions",
					own, all, float64(own)/possible, count.Load())
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

// Whoever is held back goes within ten seconds after nothing holds it back any
// more, wherever that was changed.
func TestWhatHoldsAFlowBackEnds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(context.Context, *fairlimit.Queue) error{
		"reset":  func(ctx context.Context, q *fairlimit.Queue) error { return q.Reset(ctx) },
		"stored": func(ctx context.Context, q *fairlimit.Queue) error { return q.SetQuotas(ctx, fairlimit.PerSecond(2)) },
		"pause and reset": func(ctx context.Context, q *fairlimit.Queue) error {
			return errors.Join(q.Pause(ctx, time.Hour), q.Reset(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				q, held := heldBack(t, rdb, 1)
				start := time.Now()
				require.NoError(t, change(t.Context(), q))
				require.NoError(t, <-held)
				require.LessOrEqual(t, time.Since(start), 11*time.Second)
			})
		})
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

// A ceiling has room for a few and not for the first of its flow. When that leaves,
// those behind go, and whoever comes then is not refused for its sake.
func TestACallerThatLeavesHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, "leaves", fairlimit.PerSecond(10))
		q, err := q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.Quota{Permits: 5, Per: 9 * time.Second}))
		require.NoError(t, err)
		require.NoError(t, q.Wait(t.Context()))
		ctx, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- q.WaitN(ctx, 5) }()
		time.Sleep(100 * time.Millisecond)
		behind := waits(t.Context(), q, 1)
		time.Sleep(100 * time.Millisecond)
		leave()
		require.ErrorIs(t, <-first, context.Canceled)
		require.NoError(t, q.Wait(within(t, time.Second)))
		require.NoError(t, <-behind)
	})
}

// Somebody behind is held back by the ceiling, for much longer.
func TestACeilingHasRoomForPermitsThatComeBack(t *testing.T) {
	t.Parallel()
	type held struct {
		turn   *fairlimit.Reservation
		behind <-chan error
	}
	for name, next := range map[string]func(t *testing.T, q *fairlimit.Queue, h held) error{
		"cancelled": func(t *testing.T, _ *fairlimit.Queue, h held) error {
			require.NoError(t, h.turn.Cancel(t.Context()))
			return <-h.behind
		},
		"paused": func(t *testing.T, q *fairlimit.Queue, h held) error {
			turn := make(chan error, 1)
			go func() { turn <- h.turn.Wait(t.Context()) }()
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, q.Pause(t.Context(), time.Second))
			return <-turn
		},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				q := queueOf(t, rdb, "back", fairlimit.Every(2*time.Second))
				q, err := q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.Quota{Permits: 2, Per: 9 * time.Second}))
				require.NoError(t, err)
				require.NoError(t, q.Wait(t.Context()))
				start := time.Now()
				turn, err := q.ReserveN(t.Context(), 1)
				require.NoError(t, err)
				behind := waits(t.Context(), q, 1)
				time.Sleep(100 * time.Millisecond)
				require.NoError(t, next(t, q, held{turn, behind}))
				require.Less(t, time.Since(start), 5*time.Second)
			})
		})
	}
}

func TestAReservationThatIsWaitedForAfterAPauseOfItsFlowStands(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		whole := queueOf(t, rdb, "stands", fairlimit.Every(10*time.Second))
		q, err := whole.Flow("a", 1)
		require.NoError(t, err)
		require.NoError(t, q.Pause(t.Context(), time.Hour))
		require.NoError(t, q.Reset(t.Context())) // it ends that one
		require.NoError(t, q.Wait(t.Context()))
		turn, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		_, err = whole.ReserveN(t.Context(), 1) // behind
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		require.NoError(t, q.Pause(t.Context(), time.Second))
		time.Sleep(8 * time.Second)
		require.NoError(t, turn.Wait(within(t, 5*time.Second)))
	})
}

// Nothing of a call that never fits goes, so it is not in the way of those behind.
func TestNobodyIsRefusedForACallThatNeverFits(t *testing.T) {
	t.Parallel()
	five := fairlimit.Quota{Permits: 5, Per: 5 * time.Second}
	for ceiling, whole := range map[*fairlimit.Quota]fairlimit.Quota{&five: fairlimit.PerSecond(100), nil: five} {
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
			q := queueOf(t, rdb, "q", fairlimit.PerSecond(100), fairlimit.WithStoredQuota())
			require.NoError(t, q.SetQuotas(t.Context(), whole))
			q, err := q.Flow("a", 1)
			require.NoError(t, err)
			if ceiling != nil {
				require.NoError(t, q.SetQuotas(t.Context(), *ceiling))
			}
			require.NoError(t, q.WaitN(t.Context(), 5))
			waiting := waits(t.Context(), q, 1)
			never := make(chan error, 1)
			go func() { never <- q.WaitN(t.Context(), 50) }()
			synctest.Wait()
			require.NoError(t, q.Wait(within(t, 20*time.Second)))
			require.NoError(t, <-waiting)
			require.ErrorIs(t, <-never, fairlimit.ErrExceedsQuota)
		})
	}
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
			ctx := within(t, 10*time.Second)
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

// Another process has stored a wider quota. Whoever would fit by that asks.
func TestNobodyIsRefusedByWhatHeldBefore(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		stored, wide := fairlimit.WithStoredQuota(), fairlimit.PerHour(5)
		minute := within(t, time.Minute)
		q := queueOf(t, rdb, "stored", fairlimit.PerHour(2), stored, fairlimit.WithFlow("a", 1))
		require.NoError(t, queueOf(t, rdb, "stored", fairlimit.PerHour(2), stored).SetQuotas(minute, wide))
		require.NoError(t, q.WaitN(minute, 3))

		a, elsewhere := tenant(t, rdb, "a"), tenant(t, rdb, "a")
		require.NoError(t, elsewhere.SetQuotas(minute, wide))
		_, err := a.Take(minute, fairlimit.Amounts{"": 3})
		require.NoError(t, err)
	})
}

// A wider ceiling may be stored: only Redis knows what fits.
func TestARedisThatFailsIsNoCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := new(atomic.Bool)
		rdb := redistest.Mini(t).NewClient(t)
		rdb.AddHook(refuses{set: fails})
		fails.Store(true)
		for _, opts := range [][]fairlimit.Option{nil, {fairlimit.WithFallback(fairlimit.FailOpen)}} {
			q := queueOf(t, rdb, redistest.Name(t), fairlimit.PerSecond(10), opts...)
			a, err := q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.PerSecond(2)))
			require.NoError(t, err)
			err = a.WaitN(t.Context(), 3)
			require.NotErrorIs(t, err, fairlimit.ErrExceedsQuota)
			require.Equal(t, opts == nil, err != nil, "%v", err)
		}
	})
}

func TestAFlowThatIsSteeredWithoutRedisSaysSo(t *testing.T) {
	t.Parallel()
	q, err := fairlimit.NewQueue(nowhere(t), "n", fairlimit.PerSecond(5))
	require.NoError(t, err)
	a, err := q.Flow("a", 1)
	require.NoError(t, err)
	for _, err := range []error{
		a.Pause(t.Context(), time.Minute), a.SetQuotas(t.Context(), fairlimit.PerSecond(1)), a.ForgetQuotas(t.Context()),
	} {
		require.ErrorIs(t, err, fairlimit.ErrUnreachable)
		require.NotErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	}
}

// Its sleepers keep their turns.
func TestAPauseOfAFlowThatIsRefusedHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := new(atomic.Bool)
		rdb := redistest.Mini(t).NewClient(t)
		rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if fails.Load() {
				cmd.SetErr(saying("NOPERM"))
				return cmd.Err()
			}
			return next(ctx, cmd)
		}))
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Second))
		a, err := q.Flow("a", 1)
		require.NoError(t, err)
		require.NoError(t, a.Wait(t.Context()))
		errs := lineUp(t.Context(), a, 1, 1)
		time.Sleep(time.Second / 2)
		fails.Store(true)
		require.Error(t, a.Pause(t.Context(), time.Second))
		synctest.Wait()
		fails.Store(false)
		require.NoError(t, <-errs)
	})
}
