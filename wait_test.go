package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// TestOneAloneWhoCannotLeaveAsksForItself is about callers whose ctx never
// ends, who may ask Redis in their own goroutine. The client has to see to it
// that they come back.
func TestOneAloneWhoCannotLeaveAsksForItself(t *testing.T) {
	endless := context.Background()
	newStubOf := func(t *testing.T, o *redis.Options) (*stub, fairlimit.Limiter) {
		s, _ := newStub(t)
		return s, s.with(t, redis.NewClient(o))
	}
	newStub := func(t *testing.T) (*stub, fairlimit.Limiter) { // that has just been answered quickly
		s, l := newStubOf(t, &redis.Options{Addr: "127.0.0.1:1"})
		errs := lineUp(endless, l, 1, 1)
		(<-s.calls).grants(1)
		require.NoError(t, <-errs)
		synctest.Wait()
		return s, l
	}
	t.Run("without another goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStub(t)
			errs := lineUp(endless, l, 1, 1)
			assert.Zero(t, redistest.Running("internal/coalesce.(*Asker).serve("))
			(<-e.calls).grants(1)
			require.NoError(t, <-errs)
		})
	})
	t.Run("and for nobody else", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStub(t)
			errs := lineUp(endless, l, 1, 1)
			alone := <-e.calls
			others := lineUp(endless, l, 2, 4)
			assert.Equal(t, []int{1}, alone.permits())
			alone.grants(1)
			require.NoError(t, <-errs, "it does not wait until the others are served")
			next := <-e.calls
			assert.Equal(t, []int{2, 3, 4}, next.permits())
			next.grants(3)
			for range 3 {
				require.NoError(t, <-others)
			}
		})
	})
	t.Run("until its answer is overdue, then others go on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStub(t)
			errs := lineUp(endless, l, 1, 1)
			stuck := <-e.calls
			next := lineUp(t.Context(), l, 2, 2)
			start := time.Now()
			current := <-e.calls
			assert.Equal(t, 5*time.Second, time.Since(start))
			stuck.grants(1)
			last := lineUp(t.Context(), l, 3, 3)
			select {
			case <-e.calls:
				t.Error("one question at a time")
			default:
			}
			current.grants(1)
			require.NoError(t, <-next)
			(<-e.calls).grants(1)
			require.NoError(t, <-last)
			require.ErrorIs(t, <-errs, fairlimit.ErrOutcomeUnknown)
			synctest.Wait()
			assert.Len(t, e.givenBack(), 1)
		})
	})
	t.Run("right after a quick answer, if the client bounds each round trip", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStubOf(t, &redis.Options{Addr: "127.0.0.1:1"})
			asks := func(after, takes time.Duration, byItself bool) {
				t.Helper()
				time.Sleep(after)
				errs := lineUp(endless, l, 1, 1)
				question := <-e.calls
				assert.Equal(t, byItself, redistest.Running("internal/coalesce.(*Asker).serve(") == 0)
				time.Sleep(takes)
				question.grants(1)
				require.NoError(t, <-errs)
				synctest.Wait()
			}
			asks(0, time.Millisecond, false) // the connection is new
			asks(99*time.Millisecond, time.Millisecond, true)
			asks(99*time.Millisecond, 101*time.Millisecond, true)
			asks(0, time.Millisecond, false) // the last answer took long
			asks(0, time.Millisecond, true)
			asks(100*time.Millisecond, time.Millisecond, false) // too long ago
		})
	})
	t.Run("but not with a client that may wait for longer", func(t *testing.T) {
		clients := map[string]redis.UniversalClient{
			"a Cluster": redis.NewClusterClient(
				&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}),
		}
		for name, options := range map[string]redis.Options{
			"no ReadTimeout":      {ReadTimeout: -1},
			"no WriteTimeout":     {WriteTimeout: -1},
			"a ReadTimeout of 1m": {ReadTimeout: time.Minute},
		} {
			options.Addr = "127.0.0.1:1"
			clients[name] = redis.NewClient(&options)
		}
		for name, rdb := range clients {
			synctest.Test(t, func(t *testing.T) {
				e := &stub{queues: true, calls: make(chan *call)}
				l := e.with(t, rdb)
				errs := lineUp(endless, l, 1, 1)
				(<-e.calls).grants(1)
				require.NoError(t, <-errs)
				synctest.Wait()
				start := time.Now()
				errs = lineUp(endless, l, 1, 1)
				stuck := <-e.calls
				require.ErrorIs(t, <-errs, fairlimit.ErrOutcomeUnknown, name)
				assert.Equal(t, 5*time.Second, time.Since(start), name)
				stuck.grants(1)
			})
		}
	})
}

func TestOneWhoLeavesInItsSleepFreesItsTurn(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.PerMinute(1))
		require.NoError(t, l.Wait(t.Context()))
		ctx, cancel := context.WithCancelCause(t.Context())
		left := make(chan error, 1)
		go func() { left <- l.Wait(ctx) }()
		require.Eventually(t, func() bool { return status(t, l).Queued == 1 }, 10*time.Second, time.Millisecond)

		cancel(assert.AnError)
		err := <-left
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, assert.AnError, "the cause is told as well")
		if !strings.HasSuffix(t.Name(), "/miniredis") { // Redis may take longer than the caller waits for it
			require.Eventually(t, func() bool { return status(t, l).Queued == 0 }, 10*time.Second, time.Millisecond)
		}
		assert.Zero(t, status(t, l).Queued, "its permit is back when it returns")
	})
}

// TestWhoeverIsCancelledConsumesOnceOrNothing cancels at every moment of a
// call, and counts.
func TestWhoeverIsCancelledConsumesOnceOrNothing(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.Every(time.Hour))
		require.NoError(t, l.Wait(t.Context()))
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
				assert.ErrorIs(t, l.Wait(ctx), context.Canceled)
			})
		}
		wg.Wait()
		require.Eventually(t, func() bool { return status(t, l).Queued == 0 }, 10*time.Second, time.Millisecond)
		assert.LessOrEqual(t, status(t, l).Delay, time.Hour)
	})
}

// carried counts what questions carry.
type carried struct {
	mu                 sync.Mutex
	questions, callers int
}

func (c *carried) trace() fairlimit.Option {
	return fairlimit.WithTrace(&fairlimit.Trace{Asked: func(op string, callers int, _ time.Duration, _ error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if op == "take" {
			c.questions, c.callers = c.questions+1, c.callers+callers
		}
	}})
}

// TestACrowdWithDeadlinesIsCarriedAFewTimes has all callers come at one moment,
// each with a deadline of its own.
func TestACrowdWithDeadlinesIsCarriedAFewTimes(t *testing.T) {
	const (
		crowd     = 2000
		roundTrip = 10 * time.Millisecond
	)
	us := func(i int) time.Duration { return time.Duration(i) * time.Microsecond }
	for name, c := range map[string]struct {
		patience func(i int) time.Duration
		refusal  time.Duration // within which all are refused who are
		granted  int
	}{
		"later ones have less time": {func(i int) time.Duration { return 2*time.Second - us(i) }, 2 * roundTrip, 20},
		// One is granted a turn that is too late once it hears of it, and stays
		// until it has given that back.
		"later ones have more time": {func(i int) time.Duration { return 2*time.Second + us(i) }, 4 * roundTrip, 20},
		// A question grants at 64 slots at most.
		"some are granted": {func(i int) time.Duration { return us(i*37%crowd) * 50_000 }, time.Second, 870},
		"all are granted":  {func(i int) time.Duration { return time.Hour + us(i) }, 0, crowd},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				sent := &carried{}
				l, err := fairlimit.New(rdb, "crowd", fairlimit.Every(100*time.Millisecond), sent.trace(), fairlimit.WithGuard(0))
				require.NoError(t, err)
				require.NoError(t, l.Wait(t.Context())) // Redis learns the script
				rdb.AddHook(late{by: roundTrip})
				time.Sleep(time.Second)
				var all sync.WaitGroup
				refused, worst := make(chan time.Duration, crowd), time.Duration(0)
				for i := range crowd {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), c.patience(i))
						defer cancel()
						start := time.Now()
						if err := l.Wait(ctx); err != nil {
							assert.ErrorIs(t, err, context.DeadlineExceeded)
							refused <- time.Since(start)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				close(refused)
				granted := crowd - len(refused)
				for after := range refused {
					worst = max(worst, after)
				}
				t.Logf("%d questions for %d, refusals within %v, %d went", sent.questions, sent.callers, worst, granted)
				assert.LessOrEqual(t, sent.callers, 3*crowd)
				assert.LessOrEqual(t, worst, c.refusal)
				assert.InDelta(t, c.granted, granted, 20)
			})
		})
	}
}

func TestATurnAfterTheDeadlineIsRefusedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), e)
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		before := status(t, l)

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		start := time.Now()
		err = l.Wait(ctx)
		assert.Less(t, time.Since(start), 10*time.Second)
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, fmt.Errorf("wrapped: %w", err), &refused)
		assert.InDelta(t, time.Hour, refused.Wait, float64(10*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, errors.Is(err, context.Canceled))

		after := status(t, l)
		assert.Equal(t, before.Queued, after.Queued)
		assert.LessOrEqual(t, after.Delay, before.Delay, "a refusal consumes nothing")
	})
}

func TestACtxThatHasEndedConsumesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(1), e)
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Wait(ended), context.Canceled)
		_, err = l.Allow(ended)
		require.ErrorIs(t, err, context.Canceled)
		_, err = l.Status(ended)
		require.ErrorIs(t, err, context.Canceled)
		if r, ok := l.(fairlimit.Reserver); ok {
			_, err = r.ReserveN(ended, 1)
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Equal(t, fairlimit.Status{Available: 1}, status(t, l))

		require.NoError(t, l.Wait(t.Context()))
		require.ErrorIs(t, l.Reset(ended), context.Canceled)
		assert.Zero(t, status(t, l).Available)
	})
}

func TestMaxWaitBoundsEveryTurn(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), e,
			fairlimit.WithMaxWait(90*time.Minute))
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		r, ok := l.(fairlimit.Reserver)
		if !ok {
			return
		}
		_, err = r.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		var refused *fairlimit.RefusedError
		_, err = r.ReserveN(t.Context(), 1)
		require.ErrorAs(t, err, &refused)
		assert.InDelta(t, 2*time.Hour, refused.Wait, float64(10*time.Second))
		require.ErrorAs(t, l.Wait(t.Context()), &refused)
		assert.Equal(t, 1, status(t, l).Queued)
	})
}

func TestMaxWaitRefusesThoseWhoWouldAskAgain(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), fairlimit.WithEngine(window.New),
			fairlimit.WithMaxWait(time.Minute))
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		require.ErrorAs(t, l.Wait(t.Context()), new(*fairlimit.RefusedError))
	})
}

func TestTheTimeInLineCountsAgainstTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		errs := lineUp(ctx, l, 2, 2)
		time.Sleep(time.Second)
		first.grants(1)
		second := <-e.calls
		assert.Equal(t, 2*time.Second, second.requests[0].MaxWait)
		second.grants(1)
		require.NoError(t, <-errs)
	})
}

func TestAGrantThatComesTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		errs := lineUp(ctx, l, 1, 1)
		c := <-e.calls
		time.Sleep(time.Second)
		c.answers(granted(2500*time.Millisecond, 1))
		err := <-errs
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, 2500*time.Millisecond, refused.Wait)
		assert.Equal(t, time.Second, time.Since(start), "it is refused as soon as it is known to be late")
		assert.Len(t, e.givenBack(), 1)
	})
}

func TestARefusalThatComesTooLateIsNotSleptOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		e.queues = false
		l := e.limiter(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		errs := lineUp(ctx, l, 1, 1)
		c := <-e.calls
		time.Sleep(time.Second)
		c.answers(refused(2500 * time.Millisecond))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestWhoIsRefusedForNowSleepsAndAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		e.queues = false
		l := e.limiter(t, fairlimit.WithMaxWait(10*time.Second))
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(refused(4 * time.Second))
		again := <-e.calls
		assert.Equal(t, 4*time.Second, time.Since(start))
		assert.Equal(t, 6*time.Second, again.requests[0].MaxWait, "what is left of its patience")
		again.answers(refused(7 * time.Second))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		assert.Equal(t, 4*time.Second, time.Since(start))
	})
}

// Quotas become narrower and wider again. A limiter whose callers sleep has
// heard of the first only. Their turns pass, and the queue may end. When they
// wake, it is far beyond their slots, or there is another one.
func TestTurnsThatPassedUnheardAreNotTaken(t *testing.T) {
	for what, c := range map[string]struct {
		comes time.Duration // when others come; the callers look at 9.65 s, 19.65 s and so on
		count int
	}{
		"of a queue that is there":    {9800 * time.Millisecond, 10},
		"of one that another follows": {25 * time.Second, 60},
	} {
		t.Run(what, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				quota, name := fairlimit.PerSecond(10), redistest.Name(t)
				sleeps := queueOf(t, rdb, name, quota, fairlimit.WithStoredQuota(),
					fairlimit.WithMaxLateness(100*time.Millisecond))
				other := queueOf(t, rdb, name, quota, fairlimit.WithStoredQuota())
				start := time.Now()
				var g goers
				g.wait(t, sleeps, 0, 40)
				time.Sleep(time.Millisecond)
				require.NoError(t, other.SetQuotas(t.Context(), fairlimit.Quota{Permits: 10, Per: 10 * time.Second}))
				status(t, sleeps) // hears of it
				time.Sleep(100 * time.Millisecond)
				require.NoError(t, other.ForgetQuotas(t.Context()))
				time.Sleep(c.comes - time.Since(start))
				g.wait(t, other, 40, c.count)
				g.all.Wait()
				assert.LessOrEqual(t, g.most(time.Second), 10)
			})
		})
	}
}

func TestATurnThatIsDueAtOnceIsTakenOnNewNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb, name := m.NewClient(t), redistest.Name(t)
		var way onTheWay
		rdb.AddHook(&way)
		one, other := queueOf(t, rdb, name, fairlimit.PerSecond(5)), queueOf(t, m.Client, name, fairlimit.PerSecond(5))
		require.NoError(t, one.Wait(t.Context()))
		way.back.Store(int64(3 * time.Second))
		start, went := time.Now(), make(chan time.Duration)
		go func() {
			assert.NoError(t, one.Wait(t.Context()))
			went <- time.Since(start)
		}()
		time.Sleep(time.Second)
		require.NoError(t, other.Pause(t.Context(), 10*time.Second))
		require.GreaterOrEqual(t, <-went, 11*time.Second, "the pause began while the answer was on its way")
	})
}

// Callers of one limiter share slots, and line up again. Another limiter takes a
// permit, so that some who had one slot get two.
func TestCallersThatShareASlotKeepTheirOrder(t *testing.T) {
	for name, steers := range map[string]func(t *testing.T, q, other *fairlimit.Queue, way *onTheWay){
		"who missed a turn": func(t *testing.T, q, _ *fairlimit.Queue, way *onTheWay) {
			time.Sleep(10*time.Second - 5*time.Millisecond)
			way.there.Store(int64(20 * time.Millisecond))
			require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		},
		"whose queue was reset": func(t *testing.T, _, other *fairlimit.Queue, _ *onTheWay) {
			time.Sleep(5 * time.Second)
			require.NoError(t, other.Reset(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					m, name := redistest.Mini(t), redistest.Name(t)
					quota := fairlimit.Quota{Permits: 3, Per: 10 * time.Second}
					rdb, way := m.NewClient(t), &onTheWay{}
					rdb.AddHook(late{by: 5 * time.Millisecond})
					rdb.AddHook(way)
					q, other := queueOf(t, rdb, name, quota), queueOf(t, m.Client, name, quota)
					var g, others goers
					for who := range 12 {
						g.wait(t, q, who, 1)
						time.Sleep(time.Millisecond)
					}
					steers(t, q, other, way)
					others.wait(t, other, 0, 1)
					g.all.Wait()
					for i := range g.order {
						for j := range i {
							if g.at[j].Before(g.at[i].Add(-time.Second)) {
								require.Less(t, g.order[j], g.order[i], "they went in the order %v", g.order)
							}
						}
					}
					others.all.Wait()
				})
			}
		})
	}
}
