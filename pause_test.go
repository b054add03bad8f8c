package fairlimit_test

import (
	"context"
	"errors"
	"slices"
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
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
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
		assert.Equal(t, 3100*time.Millisecond, refused.Wait, "2 s later than its slot, which was 1.1 s ahead")
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
		assert.NotZero(t, status(t, other).Paused)
	})
}

func TestALaterPauseIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		time.Sleep(time.Second)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second), "it may have been reset meanwhile")
		assert.Len(t, s.sent(), 2)
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

func TestResetEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		require.NoError(t, q.Pause(t.Context(), time.Hour))
		require.NoError(t, q.Reset(t.Context()))
		errs := lineUp(t.Context(), q, 1, 1)
		(<-s.calls).answers(granted(0, 1))
		require.NoError(t, <-errs)
	})
}

func TestADeadlineThatAPauseMakesImpossibleIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		errs := lineUp(ctx, q, 1, 1)
		(<-s.calls).answers(granted(5*time.Second, 1))
		synctest.Wait()
		start := time.Now()
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		err := <-errs
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, fairlimit.ErrPaused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 65*time.Second, refused.Wait, "the turn comes after the pause as it would have come without")
		assert.LessOrEqual(t, time.Since(start), 50*time.Millisecond)
		assert.Len(t, s.givenBack(), 1)
	})
}

// TestARefusalTellsWhenTheTurnComesAfterThePause compares it with what Status
// tells next. The second pause makes the first longer.
func TestARefusalTellsWhenTheTurnComesAfterThePause(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		q, err := fairlimit.NewQueue(rdb, redistest.Name(t), fairlimit.Every(30*time.Second), fairlimit.WithGuard(0))
		require.NoError(t, err)
		require.NoError(t, q.Wait(t.Context()))
		refused := func(after, pause time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), after+time.Second)
			defer cancel()
			errs := make(chan error, 1)
			go func() { errs <- q.Wait(ctx) }()
			require.Eventually(t, func() bool {
				status, err := q.Status(t.Context())
				return err == nil && status.Queued == 1
			}, 10*time.Second, 10*time.Millisecond)
			time.Sleep(time.Millisecond) // the pause comes after what the caller knows
			require.NoError(t, q.Pause(t.Context(), pause))
			var refused *fairlimit.RefusedError
			require.ErrorAs(t, <-errs, &refused)
			require.Eventually(t, func() bool {
				status, err := q.Status(t.Context())
				return err == nil && status.Queued == 0
			}, 10*time.Second, 10*time.Millisecond)
			status, err := q.Status(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, status.Delay, refused.Wait, float64(2*time.Second), "paused for %v", pause)
		}
		refused(30*time.Second, time.Minute)
		refused(90*time.Second, 10*time.Minute)
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
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
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

// Callers of one limiter that line up again keep their order, whatever they ask
// for. The later ones line up in front of the earlier ones.
func TestCallersForDifferentPermitsLineUpAgainInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t, fairlimit.WithPauseWithin(3*time.Second)) // no answer takes as long
		s.fails = engine.ErrUnreachable
		errs := lineUp(t.Context(), q, 1, 3)
		(<-s.calls).answers(granted(time.Second, 1))
		(<-s.calls).answers(granted(2*time.Second, 2), granted(3*time.Second, 3))
		synctest.Wait()
		require.Error(t, q.Pause(t.Context(), 10*time.Second))
		time.Sleep(9 * time.Second)
		other := lineUp(t.Context(), q, 4, 4)
		call := <-s.calls // a question is under way when all three miss their turns
		time.Sleep(2 * time.Second)
		synctest.Wait()
		call.grants(1)
		call = <-s.calls
		assert.Equal(t, []int{1, 2, 3}, call.permits())
		call.grants(3)
		for range 3 {
			<-errs
		}
		<-other
	})
}

func TestAPauseHoldsThoseWhoSleepInOtherProcesses(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1}
		one, other := named(t, rdb, name, quota), named(t, rdb, name, quota)
		start := time.Now()
		require.NoError(t, one.Wait(t.Context()))
		var g goers
		g.wait(t, other, 0, 20) // up to 4 s
		time.Sleep(1500*time.Millisecond - time.Since(start))
		require.NoError(t, one.(*fairlimit.Queue).Pause(t.Context(), 10*time.Second))
		assert.InDelta(t, float64(10*time.Second), float64(status(t, one).Paused), float64(10*time.Millisecond))
		assert.Zero(t, status(t, one).Available)
		g.all.Wait()
		for i, at := range g.at {
			require.Equal(t, i, g.order[i])
			went := at.Sub(start)
			assert.False(t, went > 2500*time.Millisecond && went < 11500*time.Millisecond, "%d went at %v", i, went)
		}
		assert.LessOrEqual(t, g.most(time.Second), 5)
	})
}

// The server's clock gains 1 ms in a pause of 30 s, as clocks may. Then whoever
// has its turn just after the pause misses it, though nothing was late.
func TestNobodyMissesItsTurnBecauseClocksRunApartInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		name := redistest.Name(t)
		missed := 0
		trace := &fairlimit.Trace{Missed: func(n int, _ time.Duration) { missed += n }}
		quota := fairlimit.PerSecond(5)
		q, other := queueOf(t, m.Client, name, quota, fairlimit.WithTrace(trace)), queueOf(t, m.Client, name, quota)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		start := time.Now()
		var first, second goers
		first.wait(t, q, 0, 5)
		time.Sleep(time.Second)
		second.wait(t, other, 0, 5)
		for range 28 { // the server gains 35 ppm
			time.Sleep(time.Second)
			m.SetTime(time.Now().Add(time.Since(start) / 28000))
		}
		synctest.Wait()
		ticker := time.NewTicker(100 * time.Microsecond)
		defer ticker.Stop()
		done := make(chan struct{})
		go func() { first.all.Wait(); second.all.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-ticker.C:
				m.SetTime(time.Now().Add(time.Since(start) / 28000))
			}
		}
		assert.Zero(t, missed, "no limiter has a MaxLateness")
		for _, at := range first.at {
			assert.Less(t, at.Sub(start).Seconds(), 30.1, "those who called first went first")
		}
	})
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

// Somebody reset the queue since this limiter's longer pause was recorded. A new
// pause within X/4 of that is taken for recorded, and is not sent.
func TestAPauseRightAfterAResetIsSent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		q, other := queueOf(t, rdb, name, fairlimit.PerSecond(5)), queueOf(t, rdb, name, fairlimit.PerSecond(5))
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, other.Reset(t.Context()))
		_, err := q.Status(t.Context()) // q hears of the reset
		require.NoError(t, err)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		s, err := other.Status(t.Context())
		require.NoError(t, err)
		assert.NotZero(t, s.Paused)
	})
}
