package fairlimit_test

import (
	"context"
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
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// goers lets so many callers wait, one after the other, and notes who went when.
type goers struct {
	mu    sync.Mutex
	order []int
	at    []time.Time
	all   sync.WaitGroup
}

func (g *goers) wait(t *testing.T, l fairlimit.Limiter, first, count int) {
	for who := first; who < first+count; who++ {
		g.all.Go(func() {
			if !assert.NoError(t, l.Wait(t.Context())) {
				return
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.order, g.at = append(g.order, who), append(g.at, time.Now())
		})
		synctest.Wait()
	}
}

// most is the most who went in any stretch of so long.
func (g *goers) most(per time.Duration) (most int) {
	slices.SortFunc(g.at, time.Time.Compare)
	for i := range g.at {
		in := 0
		for _, at := range g.at[i:] {
			if at.Sub(g.at[i]) < per {
				in++
			}
		}
		most = max(most, in)
	}
	return most
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

func TestThoseWhoSleepLineUpAgainAfterAReset(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1}
		one, other := named(t, rdb, name, quota), named(t, rdb, name, quota)
		start := time.Now()
		require.NoError(t, one.Wait(t.Context()))
		var g goers
		g.wait(t, other, 0, 40) // up to 8 s
		time.Sleep(2*time.Second - time.Since(start))
		require.NoError(t, one.Reset(t.Context()))
		var late goers
		late.wait(t, one, 0, 40)
		g.all.Wait()
		late.all.Wait()
		for i := range g.order {
			require.Equal(t, i, g.order[i])
		}
		all := goers{at: append(g.at, late.at...)}
		var after goers
		for _, at := range all.at {
			if at.Sub(start) > 3*time.Second {
				after.at = append(after.at, at)
			}
		}
		assert.LessOrEqual(t, after.most(time.Second), 5)
	})
}

func TestAReservationWaits(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := named(t, rdb, redistest.Name(t), fairlimit.Every(10*time.Second)).(*fairlimit.Queue)
		start := time.Now()
		first, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		second, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, first.Wait(t.Context()))
		require.ErrorIs(t, first.Wait(t.Context()), fairlimit.ErrReservationOver)
		require.NoError(t, q.Pause(t.Context(), 30*time.Second))
		require.NoError(t, second.Wait(t.Context()))
		assert.InDelta(t, float64(40*time.Second), float64(time.Since(start)), float64(20*time.Millisecond))

		third, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		errs := make(chan error, 1)
		go func() { errs <- third.Wait(t.Context()) }()
		time.Sleep(time.Second)
		require.NoError(t, third.Cancel(t.Context()))
		require.ErrorIs(t, <-errs, fairlimit.ErrReservationOver)
		require.NoError(t, third.Cancel(t.Context()))
		assert.Zero(t, status(t, q).Queued)

		fourth, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, fourth.Wait(ctx), &refused)
		assert.Zero(t, status(t, q).Queued, "it was given back")
	})
}

func TestAnOpenedQueueTellsTheStoredQuotas(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		q, err := fairlimit.Open(rdb, redistest.Name(t))
		require.NoError(t, err)
		quotas, stored, err := q.Quotas(t.Context())
		require.NoError(t, err)
		assert.Empty(t, quotas)
		assert.False(t, stored)

		want := []fairlimit.Quota{fairlimit.PerSecond(20), {Permits: 100, Per: 2 * time.Minute, Burst: 10}}
		require.NoError(t, q.SetQuotas(t.Context(), want...))
		quotas, stored, err = q.Quotas(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, quotas)
		assert.True(t, stored)
		require.ErrorIs(t, q.Wait(t.Context()), fairlimit.ErrNoQuota, "it was not made WithStoredQuota")

		require.NoError(t, q.ForgetQuotas(t.Context()))
		_, stored, err = q.Quotas(t.Context())
		require.NoError(t, err)
		assert.False(t, stored)
	})
}

// TestManyCallersShareTheirQuestions counts all that is asked for 200 callers
// who come at once and sleep up to two seconds.
func TestManyCallersShareTheirQuestions(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		const callers = 200
		var asked atomic.Int64
		l := limiter(t, rdb, fairlimit.Quota{Permits: callers / 2, Per: time.Second, Burst: 1},
			fairlimit.WithTrace(&fairlimit.Trace{
				Asked: func(string, int, time.Duration, error) { asked.Add(1) },
			}))
		var all sync.WaitGroup
		for range callers {
			all.Go(func() { assert.NoError(t, l.Wait(t.Context())) })
		}
		all.Wait()
		assert.LessOrEqual(t, asked.Load(), int64(callers/10), "a tenth of a question a turn")
	})
}
