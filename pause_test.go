package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// steered is a stub whose queue can be paused: each pause takes a while, and
// may fail.
type steered struct {
	stub
	takes time.Duration
	fails error

	mu     sync.Mutex
	pauses []time.Duration
}

func newSteered(t testing.TB, opts ...fairlimit.Option) (*steered, *fairlimit.Queue) {
	s := &steered{stub: stub{queues: true, calls: make(chan *call)}, takes: 10 * time.Millisecond}
	build := func(engine.Config) (engine.Engine, error) { return s, nil }
	opts = append(opts, fairlimit.WithEngine(build))
	q, err := fairlimit.NewQueue(nowhere(t), "steered", fairlimit.PerSecond(1), opts...)
	require.NoError(t, err)
	return s, q
}

func (s *steered) Look(context.Context) error { return errors.New("nobody looks") }

func (s *steered) Pause(_ context.Context, d time.Duration) error {
	s.mu.Lock()
	s.pauses = append(s.pauses, d)
	s.mu.Unlock()
	time.Sleep(s.takes)
	return s.fails
}

func (s *steered) Quotas(context.Context) ([]engine.Quota, bool, error) { return nil, false, nil }
func (s *steered) SetQuotas(context.Context, []engine.Quota) error      { return nil }

func (s *steered) sent() []time.Duration {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pauses)
}

func TestAStormOfPausesIsAFewQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		var all sync.WaitGroup
		for range 20 {
			for _, d := range []time.Duration{3, 30, 5} {
				all.Go(func() { assert.NoError(t, q.Pause(t.Context(), d*time.Second)) })
			}
		}
		all.Wait()
		sent := s.sent()
		require.LessOrEqual(t, len(sent), 2)
		assert.Equal(t, 30*time.Second, slices.Max(sent).Round(time.Second))
	})
}

func TestAPauseIsAtLeastTwiceX(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t, fairlimit.WithPauseWithin(3*time.Second))
		require.NoError(t, q.Pause(t.Context(), time.Second))
		assert.Equal(t, []time.Duration{6 * time.Second}, s.sent())
	})
}

// The first question takes longer than what the second pause has left. Less than
// 2X of that would be too short for callers that do not hear of it.
func TestAPauseThatStoodInLineLastsTwiceX(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		s.takes, s.fails = 1400*time.Millisecond, engine.ErrOutcomeUnknown
		start := time.Now()
		errs := lineUp(t.Context(), q, 1, 1)
		(<-s.calls).answers(granted(3*time.Second, 1))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { assert.Error(t, q.Pause(t.Context(), 2*time.Second)) })
			time.Sleep(100 * time.Millisecond)
		}
		both.Wait()
		require.Equal(t, []time.Duration{2 * time.Second, 2 * time.Second}, s.sent())

		again := <-s.calls // its turn has passed, if the pause was recorded or not
		assert.Equal(t, 3400*time.Millisecond, time.Since(start), "it is held for as long as was sent")
		again.answers(granted(0, 1))
		require.NoError(t, <-errs)
	})
}

// TestARefusalInAPauseThatStoodInLine has a caller that is held longer than it
// was when Pause was called: until 3.4 s instead of 2.1 s.
func TestARefusalInAPauseThatStoodInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		s.takes = 1400 * time.Millisecond
		ctx := within(t, 3*time.Second)
		errs := lineUp(ctx, q, 1, 1)
		(<-s.calls).answers(granted(2500*time.Millisecond, 1))
		start := time.Now()
		var both sync.WaitGroup
		defer both.Wait()
		for range 2 {
			both.Go(func() { assert.NoError(t, q.Pause(t.Context(), 2*time.Second)) })
			time.Sleep(100 * time.Millisecond)
		}
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, <-errs, &refused)
		require.ErrorIs(t, refused, fairlimit.ErrPaused)
		assert.Equal(t, 1400*time.Millisecond, time.Since(start), "when the second is sent")
		assert.Equal(t, 2*time.Second, refused.Wait, "for as long as it is held at least")
	})
}

// Redis has recorded a longer pause, and its answer is on the way. Meanwhile
// somebody resets the queue.
func TestAPauseDoesNotJoinOneThatMayHaveBeenReset(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		other := queueOf(t, rdb, name, fairlimit.PerSecond(5))
		far := redis.NewClient(rdb.Options())
		defer func() { _ = far.Close() }()
		q := queueOf(t, far, name, fairlimit.PerSecond(5))
		require.NoError(t, q.Pause(t.Context(), time.Minute)) // the script is loaded
		require.NoError(t, other.Reset(t.Context()))
		far.AddHook(late{by: time.Second})
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() { assert.NoError(t, q.Pause(t.Context(), time.Minute)) })
		time.Sleep(500 * time.Millisecond)
		require.NotZero(t, status(t, other).Paused)
		require.NoError(t, other.Reset(t.Context()))
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		assert.InDelta(t, 30, status(t, other).Paused.Seconds(), 1.5, "the longer one is over")
	})
}

func TestAPauseHoldsItsOwnProcessWhateverRedisDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		s.fails = engine.ErrUnreachable
		start := time.Now()
		errs := lineUp(t.Context(), q, 1, 1)
		(<-s.calls).answers(granted(5*time.Second, 1))
		synctest.Wait()
		require.ErrorIs(t, q.Pause(t.Context(), time.Minute), fairlimit.ErrUnreachable)

		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed, "without a question")

		again := <-s.calls // its turn has passed, so it asks once more
		assert.GreaterOrEqual(t, time.Since(start), time.Minute)
		again.answers(granted(0, 1))
		require.NoError(t, <-errs)
		assert.Len(t, s.givenBack(), 1)
	})
}

func TestARefusalSaysWhetherAPauseIsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t, fairlimit.WithMaxWait(10*time.Second))
		for _, c := range []struct {
			wait, paused time.Duration
			because      bool
		}{
			{20 * time.Second, 0, false},
			{20 * time.Second, 15 * time.Second, true},
			{20 * time.Second, 5 * time.Second, false},
		} {
			errs := lineUp(t.Context(), q, 1, 1)
			(<-s.calls).answers(engine.Answer{Wait: c.wait, Paused: c.paused})
			err := <-errs
			assert.Equal(t, c.because, errors.Is(err, fairlimit.ErrPaused), "%+v", c)
			assert.Equal(t, c.because, strings.Contains(err.Error(), "paused, and refused"), "%+v", c)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}

// The pause alone leaves the turn in time, and the narrower quota alone does not.
func TestAPauseIsNoReasonIfAQuotaIs(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, "q", fairlimit.Every(10*time.Second), fairlimit.WithStoredQuota())
		other := queueOf(t, rdb, "q", fairlimit.Every(10*time.Second), fairlimit.WithStoredQuota())
		for range 3 {
			_, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		errs := lineUp(ctx, q, 1, 1) // in 30 s
		time.Sleep(time.Second)
		require.NoError(t, other.Pause(t.Context(), 4*time.Second))
		require.NoError(t, other.SetQuotas(t.Context(), fairlimit.Every(20*time.Second)))
		_, err := q.Status(t.Context()) // hears of both
		require.NoError(t, err)
		err = <-errs
		require.ErrorAs(t, err, new(*fairlimit.RefusedError))
		require.NotErrorIs(t, err, fairlimit.ErrPaused)
	})
}

func TestARefusalTellsWhatIsLeftOfMaxWait(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, "q", fairlimit.Every(10*time.Second), fairlimit.WithMaxWait(12*time.Second))
		require.NoError(t, q.Wait(t.Context()))
		errs := lineUp(t.Context(), q, 1, 1) // in 10 s
		time.Sleep(2 * time.Second)
		require.NoError(t, q.Pause(t.Context(), 5*time.Second))
		require.ErrorContains(t, <-errs, "WithMaxWait (10s left)")
	})
}

func TestAPauseOutOfRangeIsAnError(t *testing.T) {
	s, q := newSteered(t)
	for _, d := range []time.Duration{0, -time.Second, 366 * 24 * time.Hour} {
		require.ErrorIs(t, q.Pause(t.Context(), d), fairlimit.ErrInvalidPause)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Pause(ended, time.Second), context.Canceled)
	assert.Empty(t, s.pauses)
}

func TestAnEngineThatCannotBeSteeredSaysSo(t *testing.T) {
	_, l := newStub(t)
	q := l.(*fairlimit.Queue)
	require.ErrorIs(t, q.Pause(t.Context(), time.Second), fairlimit.ErrUnsupported)
	require.ErrorIs(t, q.SetQuotas(t.Context(), fairlimit.PerSecond(1)), fairlimit.ErrUnsupported)
	require.ErrorIs(t, q.ForgetQuotas(t.Context()), fairlimit.ErrUnsupported)
	_, _, err := q.Quotas(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
}

// The first time Redis does not record the pause, so that the slots of those who
// are held pass. The second time it does. Nobody may take the end of the pause
// for the slot that has passed before.
func TestSlotsThatPassedBeforeAPauseWasRecordedAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		var fails atomic.Bool
		rdb := m.NewClient(t)
		rdb.AddHook(refuses{set: &fails})
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1})
		var g goers
		g.wait(t, q, 0, 100) // up to 20 s
		time.Sleep(2*time.Second + 100*time.Millisecond)
		fails.Store(true)
		require.Error(t, q.Pause(t.Context(), 30*time.Second))
		fails.Store(false)
		time.Sleep(8 * time.Second)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		g.all.Wait()
		assert.LessOrEqual(t, g.most(time.Second), 5)
		for i := range g.order {
			require.Equal(t, i, g.order[i])
		}
	})
}

func TestWhereNobodyLooksAPauseHoldsTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f rateLimiter
		var fails atomic.Bool
		rdb := redistest.Mini(t).NewClient(t)
		rdb.AddHook(refuses{set: &fails})
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.PerSecond(1),
			fairlimit.WithFallback(&f), fairlimit.WithPauseWithin(0))
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		start := time.Now()
		fails.Store(true)
		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
		require.NoError(t, q.Wait(t.Context()))
		assert.Equal(t, time.Minute, time.Since(start))
		assert.EqualValues(t, 1, f.permits.Load())
	})
}

func TestWhereNobodyLooksAPauseThatRedisDoesNotKnowHoldsAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t, fairlimit.WithPauseWithin(0))
		s.fails = fairlimit.ErrUnreachable
		require.Error(t, q.Pause(t.Context(), time.Minute))
		allowed := make(chan bool, 1)
		go func() {
			ok, err := q.Allow(t.Context())
			assert.NoError(t, err)
			allowed <- ok
		}()
		(<-s.calls).grants(1)
		assert.False(t, <-allowed)
		synctest.Wait()
		assert.Len(t, s.givenBack(), 1)
	})
}

// A Reset frees the callers of the limiter that paused, whoever resets, and
// whether its callers look or not.
func TestAllowHearsOfAReset(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		for _, within := range []time.Duration{0, time.Second} {
			name, opt := redistest.Name(t)+within.String(), fairlimit.WithPauseWithin(within)
			q := queueOf(t, rdb, name, fairlimit.PerSecond(10), opt)
			other := queueOf(t, rdb, name, fairlimit.PerSecond(10), opt)
			for _, resets := range []*fairlimit.Queue{q, other} {
				require.NoError(t, q.Pause(t.Context(), 24*time.Hour))
				allowed, err := q.Allow(t.Context())
				require.NoError(t, err)
				require.False(t, allowed)
				require.NoError(t, resets.Reset(t.Context()))
				time.Sleep(2 * time.Second)
				allowed, err = q.Allow(t.Context())
				require.NoError(t, err)
				assert.True(t, allowed)
			}
		}
	})
}

func TestWhereNobodyLooksAPauseHoldsNobodyWhoSleeps(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		missed := 0
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Second), fairlimit.WithPauseWithin(0),
			fairlimit.WithTrace(&fairlimit.Trace{Missed: func(n int, _ time.Duration) { missed += n }}))
		start := time.Now()
		var g goers
		g.wait(t, q, 0, 5) // up to 4 s
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		var late goers
		late.wait(t, q, 5, 5)
		g.all.Wait()
		assert.InDelta(t, 4, time.Since(start).Seconds(), 0.01)
		late.all.Wait()
		assert.InDelta(t, 69, time.Since(start).Seconds(), 0.01)
		assert.Zero(t, missed)
	})
}

// This limiter resets, or hears with the answer to another caller that somebody
// did.
func TestWhereNobodyLooksThoseWhoseQueueWasResetLineUpAgain(t *testing.T) {
	for _, itself := range []bool{true, false} {
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
			name := redistest.Name(t)
			q := queueOf(t, rdb, name, fairlimit.Every(time.Second), fairlimit.WithPauseWithin(0))
			resets := q
			if !itself {
				resets = queueOf(t, rdb, name, fairlimit.Every(time.Second), fairlimit.WithPauseWithin(0))
			}
			var g goers
			g.wait(t, q, 0, 20)
			time.Sleep(1500 * time.Millisecond)
			require.NoError(t, resets.Reset(t.Context()))
			g.wait(t, q, 20, 10)
			g.all.Wait()
			for i := range g.at[:29] { // nobody goes in the half second before the reset
				assert.Equal(t, i == 1, g.at[i+1].Sub(g.at[i]) < 990*time.Millisecond, "after %d", g.order[i])
			}
		})
	}
}

// Two limiters know of a pause. Another one follows, of which one limiter hears
// nothing: then its callers would go between those of the other.
func TestAfterAPauseNobodyGoesWithoutNews(t *testing.T) {
	for name, c := range map[string]struct {
		opts     []fairlimit.Option
		deadline time.Duration
		back     time.Duration // when Redis answers again
		went     bool
	}{
		"until it is late":             {opts: []fairlimit.Option{fairlimit.WithMaxLateness(time.Second)}},
		"until its deadline":           {deadline: 22 * time.Second},
		"for as long as an answer may": {},
		"until Redis answers again":    {back: 14500 * time.Millisecond, went: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, name := redistest.Mini(t), redistest.Name(t)
				quota := fairlimit.Quota{Permits: 4, Per: 4 * time.Second, Burst: 1}
				var silent atomic.Bool
				rdb := m.NewClient(t)
				rdb.AddHook(refuses{set: &silent})
				q, other := queueOf(t, rdb, name, quota, c.opts...), queueOf(t, m.Client, name, quota)
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				if c.deadline > 0 {
					ctx, cancel = context.WithDeadline(t.Context(), start.Add(c.deadline))
				}
				defer cancel()
				require.NoError(t, other.Pause(t.Context(), 2*time.Second))
				status(t, q)
				var g goers
				var went atomic.Int64
				g.wait(t, other, 0, 10) // from 2 s on
				for who := 10; who < 20; who++ {
					g.all.Go(func() {
						if q.Wait(ctx) == nil {
							went.Add(1)
							g.goes(who)
						}
					})
					synctest.Wait()
				}
				time.Sleep(time.Until(start.Add(7500 * time.Millisecond)))
				silent.Store(true)
				require.NoError(t, other.Pause(t.Context(), 3*time.Second))
				if c.back > 0 {
					time.Sleep(time.Until(start.Add(c.back)))
					silent.Store(false)
				}
				g.all.Wait()
				assert.Less(t, time.Since(start), time.Minute)
				assert.Equal(t, c.went, went.Load() == 10, "%d went", went.Load())
				assert.LessOrEqual(t, g.most(quota.Per), quota.Permits)
			})
		})
	}
}

// Two limiters hold turns alternately. One pauses or resets the queue, and all of
// it is lost before the other has heard. Once both have asked, nobody goes too
// soon after another, whoever of them asked first.
func TestWhatALimiterHasNotHeardOfIsNotLost(t *testing.T) {
	for what, steer := range map[string]func(t *testing.T, q *fairlimit.Queue, all *goers){
		"a pause": func(t *testing.T, q *fairlimit.Queue, _ *goers) {
			require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		},
		"a reset": func(t *testing.T, q *fairlimit.Queue, all *goers) {
			require.NoError(t, q.Reset(t.Context()))
			time.Sleep(time.Millisecond)
			all.wait(t, q, 100, 5)
		},
	} {
		for _, first := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, limiter %d asks first", what, first), func(t *testing.T) {
				redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
					var all goers
					queues := []*fairlimit.Queue{
						queueOf(t, rdb, "lost", fairlimit.PerSecond(1)), queueOf(t, rdb, "lost", fairlimit.PerSecond(1)),
					}
					for i := range 12 {
						all.wait(t, queues[i%2], i, 1)
					}
					time.Sleep(3200 * time.Millisecond)
					steer(t, queues[0], &all)
					time.Sleep(300 * time.Millisecond)
					require.NoError(t, rdb.FlushAll(t.Context()).Err())
					asked := time.Now()
					for _, i := range []int{first, 1 - first, first} {
						status(t, queues[i])
					}
					all.all.Wait()
					slices.SortFunc(all.at, time.Time.Compare)
					for i, at := range all.at[1:] {
						if all.at[i].After(asked) {
							assert.GreaterOrEqual(t, at.Sub(all.at[i]), time.Second-time.Millisecond, "%v", at.Sub(asked))
						}
					}
				})
			})
		}
	}
}
