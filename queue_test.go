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

func TestAPauseHoldsEverybody(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all, began := processes(t, server, 2, fairlimit.PerSecond(2)), time.Now()
		require.NoError(t, all[0].Pause(t.Context(), time.Minute))
		require.False(t, allow(t, all[1]))
		require.Equal(t, fairlimit.Status{Delay: time.Minute, Paused: time.Minute}, status(t, all[1]))
		err := all[1].Wait(within(t, 10*time.Second))
		require.ErrorIs(t, err, fairlimit.ErrPaused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "paused, and refused: the turn would come in 1m0s")
		slow := queueOf(t, server.Client, "q", fairlimit.Every(10*time.Minute))
		reserve(t, slow, 1)
		require.NotErrorIs(t, slow.Wait(within(t, 5*time.Minute)), fairlimit.ErrPaused, "it would be too late without")
		require.NoError(t, slow.Reset(t.Context()))
		require.NoError(t, all[0].Pause(t.Context(), time.Minute))
		require.NoError(t, all[1].Wait(t.Context()))
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

func TestThePauseIsTwoSecondsAtLeastAndTheLongestCounts(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.PerSecond(2))
		for _, d := range []time.Duration{0, -time.Second, 50, 366 * 24 * time.Hour} {
			require.ErrorIs(t, q.Pause(t.Context(), d), fairlimit.ErrInvalidPause)
		}
		for _, c := range [][2]time.Duration{{1e6, 2e9}, {60e9, 60e9}, {30e9, 60e9}} {
			require.NoError(t, q.Pause(t.Context(), c[0]))
			assert.Equal(t, c[1], status(t, q).Paused)
		}
	})
}

// Its turn comes in 10 s. Then it hears that it comes in 40 s, after its
// deadline.
func TestWhoeverAPauseMakesTooLateLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all, began := processes(t, server, 2, fairlimit.Every(10*time.Second)), time.Now()
		require.NoError(t, all[0].Wait(t.Context()))
		late := waits(within(t, 20*time.Second), all[0])
		time.Sleep(2 * time.Second)
		require.NoError(t, all[1].Pause(t.Context(), 30*time.Second))
		require.ErrorIs(t, <-late, fairlimit.ErrPaused)
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
		synctest.Wait()
		assert.Zero(t, status(t, all[1]).Queued, "its permits went back")
	})
}

func TestAfterAResetTheQueueIsIdle(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.PerMinute(3))
		reserve(t, q, 3)
		require.NoError(t, q.Pause(t.Context(), time.Hour))
		time.Sleep(time.Millisecond)
		require.NoError(t, q.Reset(t.Context()))
		assert.Equal(t, fairlimit.Status{Available: 3}, status(t, q))
		assert.True(t, allow(t, q), "at once: nobody waited")
		time.Sleep(time.Millisecond)
		require.NoError(t, q.Reset(t.Context()))
		require.NoError(t, q.Requeue(t.Context()))
		ok, err := q.AllowN(t.Context(), 3)
		require.NoError(t, err)
		assert.True(t, ok)
	})
}

// holds requires that these quotas hold, and whether they are stored.
func holds(t *testing.T, q *fairlimit.Queue, stored bool, want ...fairlimit.Quota) {
	t.Helper()
	quotas, is, err := q.Quotas(t.Context())
	require.NoError(t, err)
	require.Equal(t, stored, is)
	require.Equal(t, want, quotas)
}

// Ten callers wait for a turn each ten seconds. At 12 s somebody stores another
// quota, and at 42 s forgets it.
func TestStoredQuotasReachWhoWaits(t *testing.T) {
	type stored struct {
		every time.Duration
		last  time.Duration // when the last one goes
	}
	each(t, map[string]stored{
		"wider":    {2 * time.Second, 26700 * time.Millisecond}, // 0 and 10 s, 12.7 s, and 7 more
		"narrower": {30 * time.Second, 110 * time.Second},       // 0, 10, 40, 50 and 5 more
	}, func(t *testing.T, server *redistest.MiniServer, c stored) {
		all := processes(t, server, 2, fairlimit.Every(10*time.Second), fairlimit.WithStoredQuota())
		crowd := newCrowd(t)
		for range 5 {
			crowd.line(all[0], 1)
			crowd.line(all[1], 1)
		}
		opened, err := fairlimit.Open(server.Client, "q")
		require.NoError(t, err)
		time.Sleep(12 * time.Second)
		require.NoError(t, opened.SetQuotas(t.Context(), fairlimit.Every(c.every)))
		require.NoError(t, opened.SetQuotas(t.Context(), fairlimit.Every(c.every)), "nothing changes")
		time.Sleep(30 * time.Second)
		require.NoError(t, opened.ForgetQuotas(t.Context()))
		crowd.inOrder()
		require.Len(t, crowd.went, 10)
		assert.InDelta(t, c.last.Seconds(), crowd.went[9].at.Seconds(), 1)
		assert.LessOrEqual(t, crowd.most(min(c.every, 10*time.Second)-time.Microsecond), 1)
	})
}

func TestStoredQuotasTakeThePlaceOfTheGivenOnes(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.PerMinute(2), fairlimit.WithStoredQuota())
		require.ErrorIs(t, q.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
		want := []fairlimit.Quota{fairlimit.PerHour(20), {Permits: 5, Per: time.Minute, Burst: 3}}
		require.NoError(t, q.SetQuotas(t.Context(), want...))
		time.Sleep(time.Second)
		require.NoError(t, q.WaitN(t.Context(), 3))
		holds(t, q, true, want...)
		require.NoError(t, server.Set("fairlimit:{q}:quota", "2/1h"))
		require.ErrorIs(t, q.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota, "it fitted the quota that q knew")
		require.NoError(t, q.SetQuotas(t.Context(), want...))
		require.Equal(t, "20/1h 5/1m burst 3", server.Client.Get(t.Context(), "fairlimit:{q}:quota").Val())

		require.NoError(t, server.Set("fairlimit:{q}:quota", "five a minute"))
		require.ErrorIs(t, q.Wait(t.Context()), fairlimit.ErrState)
		require.NoError(t, q.ForgetQuotas(t.Context()))
		holds(t, q, false, fairlimit.PerMinute(2))

		own := queueOf(t, nowhere(t), "other", fairlimit.PerMinute(2))
		holds(t, own, false, fairlimit.PerMinute(2)) // it asks nobody
		require.ErrorIs(t, own.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
	})
}

func TestStoredQuotasNameUnits(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := tokens(t, server, fairlimit.WithStoredQuota())
		require.NoError(t, server.Set("fairlimit:{q}:quota", "60/1m; tokens 5000/1m"))
		take(t, q, amounts{"tokens": 4000})
		require.Equal(t, 1000, left(t, q))
		require.NoError(t, q.SetQuotas(t.Context(), fairlimit.PerMinute(30)))
		require.Equal(t, "30/1m; tokens 5000/1m", server.Client.Get(t.Context(), "fairlimit:{q}:quota").Val())
		require.NoError(t, server.Set("fairlimit:{q}:quota", "60/1m"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, 1000, left(t, q), "its own hold for units that the text does not name")
	})
}

func TestAnOpenedQueueSteersAndTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		opened, err := fairlimit.Open(server.Client, "q")
		require.NoError(t, err)
		holds(t, opened, false)
		require.Empty(t, server.Keys(), "to read leaves nothing")
		require.NoError(t, opened.Pause(t.Context(), time.Hour), "of a queue that nobody took from")

		q := tokens(t, server)
		for range 2 {
			_, err := q.ReserveAmounts(t.Context(), amounts{"tokens": 600})
			require.NoError(t, err)
		}
		s := status(t, opened)
		require.Equal(t, 1, s.Queued)
		require.Equal(t, 600, s.Units["tokens"].Queued, "it has the units that the queue has")
		require.Equal(t, time.Hour, s.Paused)
		require.NoError(t, opened.Resume(t.Context()))
		require.NoError(t, q.Wait(within(t, time.Hour)))

		require.ErrorIs(t, opened.Wait(t.Context()), fairlimit.ErrNoQuota)
		require.NoError(t, opened.SetQuotas(t.Context(), fairlimit.PerMinute(7)))
		again, err := fairlimit.Open(server.Client, "q")
		require.NoError(t, err)
		status(t, again)
		holds(t, opened, true, fairlimit.PerMinute(7)) // whoever opens it later leaves them
		require.ErrorContains(t, opened.Wait(t.Context()), "give Open WithStoredQuota")
		require.NoError(t, opened.Reset(t.Context()))

		goes, err := fairlimit.Open(server.Client, "other", fairlimit.WithStoredQuota())
		require.NoError(t, err)
		require.ErrorIs(t, goes.Wait(t.Context()), fairlimit.ErrNoQuota)
		require.NoError(t, goes.SetQuotas(t.Context(), fairlimit.PerMinute(7)))
		require.NoError(t, goes.Wait(t.Context()))
		require.NoError(t, goes.ForgetQuotas(t.Context()))
		require.ErrorIs(t, goes.Wait(t.Context()), fairlimit.ErrNoQuota)
	})
}

// It slept through the pause, since it accepted any moment.
func TestAllowDoesNotSleepThroughAPauseThatItHearsOf(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		var q *fairlimit.Queue
		pauses := func(int, time.Duration) { require.NoError(t, q.Pause(t.Context(), time.Minute)) }
		q = queueOf(t, server.NewClient(t), "q", fairlimit.PerSecond(5),
			fairlimit.WithTrace(&fairlimit.Trace{Granted: pauses}))
		began := time.Now()
		assert.False(t, allow(t, q))
		assert.Less(t, time.Since(began), time.Second)
	})
}

// Answers to callers that were refused every 100 ms counted as news, with an
// old offset: whoever slept beside them did not hear of a pause.
func TestRefusalsDoNotDeafenWhoSleepsBesideThem(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all, began := processes(t, server, 2, fairlimit.Every(10*time.Second)), time.Now()
		require.NoError(t, all[0].Wait(t.Context()))
		sleeps := waits(t.Context(), all[0])
		for i := range 50 {
			if i == 20 {
				require.NoError(t, all[1].Pause(t.Context(), time.Minute))
			}
			require.False(t, allow(t, all[0]))
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, <-sleeps)
		assert.Equal(t, 70*time.Second, time.Since(began))
	})
}

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
	type shared struct {
		callers, weights [2]int
		share            float64 // of the first
	}
	each(t, map[string]shared{
		"many callers beside one": {[2]int{60, 1}, [2]int{1, 1}, 0.5},
		"weights of 1 and 3":      {[2]int{10, 10}, [2]int{1, 3}, 0.25},
		"weights of 50 and 50":    {[2]int{60, 1}, [2]int{50, 50}, 0.5}, // it was 0.98
	}, func(t *testing.T, server *redistest.MiniServer, c shared) {
		ctx := within(t, 10*time.Second)
		one := busy(ctx, flowOf(t, server, "one", c.weights[0]), c.callers[0])
		other := busy(ctx, flowOf(t, server, "the other", c.weights[1]), c.callers[1])
		a, b := float64(one()), float64(other())
		assert.InDelta(t, c.share, a/(a+b), 0.05)
		assert.Greater(t, a+b, 0.95*10*20, "the quota is used")
	})
}

func TestAFlowAloneHasAllOfTheQuota(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		ctx := within(t, 10*time.Second)
		before := within(t, 3*time.Second)
		q := flowOf(t, server, "one", 1)
		flow, err := q.Flow("other", 1)
		require.NoError(t, err)
		_, err = q.Flow("other", 0)
		require.ErrorIs(t, err, fairlimit.ErrInvalidFlow)
		one, other := busy(ctx, q, 30), busy(before, flow, 30)
		assert.InDelta(t, 30, other(), 6)
		assert.InDelta(t, 30+7*20, one(), 15, "half a second after the other was idle")
	})
}

func TestLearnedQuotasAreStoredIfTheyAreNewOnceAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		own := fairlimit.Quota{Permits: 9, Per: time.Minute, Burst: 5}
		all := processes(t, server, 2, own, fairlimit.WithStoredQuota(),
			fairlimit.WithUnit("tokens", fairlimit.PerHour(100)))
		perSecond, perMinute := fairlimit.PerSecond(1), fairlimit.PerMinute
		for _, step := range []struct {
			after  time.Duration
			learns []fairlimit.Quota
			stored string
		}{
			{0, []fairlimit.Quota{perMinute(9)}, ""}, // its own hold
			{0, []fairlimit.Quota{perMinute(7), perMinute(8), perSecond}, "1/1s 7/1m burst 5; tokens 100/1h"},
			{0, []fairlimit.Quota{perSecond, perMinute(7)}, "1/1s 7/1m burst 5; tokens 100/1h"},
			{59 * time.Second, []fairlimit.Quota{perMinute(4)}, "1/1s 7/1m burst 5; tokens 100/1h"},
			{time.Second, []fairlimit.Quota{perMinute(4)}, "4/1m burst 4; tokens 100/1h"},
			{time.Second, []fairlimit.Quota{perMinute(4)}, "4/1m burst 4; tokens 100/1h"},
		} {
			time.Sleep(step.after)
			for _, q := range all {
				require.NoError(t, q.LearnQuotas(t.Context(), step.learns...))
			}
			text, _ := server.Get("fairlimit:{q}:quota")
			require.Equal(t, step.stored, text)
		}
		time.Sleep(time.Minute)
		require.NotContains(t, server.Keys(), "fairlimit:{q}:quota:learned", "it expires")
	})
}

func TestQuotasThatCannotBeStoredAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		own := queueOf(t, server.Client, "q", fairlimit.PerMinute(2))
		require.ErrorIs(t, own.LearnQuotas(t.Context(), fairlimit.PerMinute(3)), fairlimit.ErrInvalidOption)
		q := queueOf(t, server.Client, "q", fairlimit.PerMinute(2), fairlimit.WithStoredQuota())
		for _, store := range []func(context.Context, ...fairlimit.Quota) error{q.SetQuotas, q.LearnQuotas} {
			require.ErrorIs(t, store(t.Context()), fairlimit.ErrInvalidQuota)
			require.ErrorIs(t, store(t.Context(), fairlimit.PerMinute(0)), fairlimit.ErrInvalidQuota)
			require.ErrorIs(t, store(t.Context(), fairlimit.PerHour(1<<40)), fairlimit.ErrUnsupported)
		}
		require.Empty(t, server.Keys())
	})
}
