package fairlimit_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// These are quotas that become narrower, and then wide again.

// No later turn may come sooner than one that was told before.
func TestAReservationComesAfterThoseThatWereSlowedDown(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		wide, narrow := fairlimit.Every(100*time.Millisecond), fairlimit.Every(250*time.Millisecond)
		q := queueOf(t, rdb, redistest.Name(t), wide, fairlimit.WithStoredQuota())
		require.NoError(t, q.SetQuotas(t.Context(), wide))
		last := time.Time{}
		reserve := func() {
			r, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			assert.True(t, r.Slot().After(last.Add(99*time.Millisecond)), "%v before", last.Sub(r.Slot()))
			last = r.Slot()
		}
		for range 21 {
			reserve()
		}
		require.NoError(t, q.SetQuotas(t.Context(), narrow))
		reserve()
		time.Sleep(time.Second)
		require.NoError(t, q.SetQuotas(t.Context(), wide))
		reserve()
	})
}

func TestManyLimitersKeepAQuotaThatIsWideAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, name := redistest.Mini(t), redistest.Name(t)
		wide, narrow := fairlimit.PerSecond(10), fairlimit.PerSecond(4)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		start := time.Now()
		var g goers
		for who := range 24 {
			q := queueOf(t, m.NewClient(t), name, wide,
				fairlimit.WithStoredQuota(), fairlimit.WithGuard(50*time.Millisecond))
			for range 2 {
				g.all.Go(func() {
					for q.Wait(ctx) == nil {
						g.goes(who)
					}
				})
			}
		}
		admin := queueOf(t, m.Client, name, wide, fairlimit.WithStoredQuota())
		require.NoError(t, admin.SetQuotas(t.Context(), wide))
		time.Sleep(5 * time.Second)
		require.NoError(t, admin.SetQuotas(t.Context(), narrow))
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, admin.SetQuotas(t.Context(), wide))
		g.all.Wait()
		assert.Greater(t, len(g.at), 100)
		g.at = slices.DeleteFunc(g.at, func(at time.Time) bool { return at.Sub(start) < 12*time.Second })
		assert.LessOrEqual(t, g.most(time.Second), 10)
	})
}

// The turns that were told before the quotas changed are far apart still when
// those come that were granted after it.
func TestAQuotaThatIsWideAgainMovesNobody(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		name := redistest.Name(t)
		quota := fairlimit.Quota{Permits: 10, Per: time.Second, Burst: 1}
		stored := fairlimit.WithStoredQuota()
		q, other := queueOf(t, rdb, name, quota, stored), queueOf(t, rdb, name, quota, stored)
		narrow := fairlimit.Quota{Permits: 5, Per: time.Second, Burst: 1}
		require.NoError(t, other.SetQuotas(t.Context(), quota))
		var g, late goers
		start := time.Now()
		g.wait(t, q, 0, 60) // up to 6 s
		time.Sleep(time.Second)
		require.NoError(t, other.SetQuotas(t.Context(), narrow))
		time.Sleep(2 * time.Second)
		require.NoError(t, other.SetQuotas(t.Context(), quota))
		time.Sleep(time.Second)
		late.wait(t, other, 0, 60)
		g.all.Wait()
		late.all.Wait()
		for i := range g.order {
			require.Equal(t, i, g.order[i])
		}
		all := goers{}
		for _, at := range append(g.at, late.at...) {
			if at.Sub(start) > 4500*time.Millisecond {
				all.at = append(all.at, at)
			}
		}
		assert.LessOrEqual(t, all.most(time.Second), 10)
		assert.Less(t, g.at[len(g.at)-1].Sub(start), late.at[0].Sub(start), "first come, first served")
	})
}

// A turn that was slowed down for the narrower quota keeps that quota the second
// time, too.
func TestAQuotaThatBecomesNarrowerAgainSlowsNobodyTwice(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		wide, narrow := fairlimit.Every(100*time.Millisecond), fairlimit.Every(time.Second)
		q := queueOf(t, rdb, redistest.Name(t), wide, fairlimit.WithStoredQuota(),
			fairlimit.WithPauseWithin(10*time.Millisecond))
		require.NoError(t, q.SetQuotas(t.Context(), wide))
		start := time.Now()
		var g goers
		g.wait(t, q, 0, 10)
		for range 4 {
			require.NoError(t, q.SetQuotas(t.Context(), narrow))
			require.NoError(t, q.SetQuotas(t.Context(), wide))
		}
		g.all.Wait()
		assert.Less(t, time.Since(start), 20*time.Second)
	})
}

// Turns that were granted on the narrower quota keep it as they are.
func TestAQuotaThatIsWiderForAMomentSlowsNobodyDown(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		narrow, wide := fairlimit.Every(time.Second), fairlimit.Every(200*time.Millisecond)
		q := queueOf(t, rdb, redistest.Name(t), narrow, fairlimit.WithStoredQuota(),
			fairlimit.WithPauseWithin(10*time.Millisecond))
		require.NoError(t, q.SetQuotas(t.Context(), narrow))
		start := time.Now()
		var g goers
		g.wait(t, q, 0, 20)
		for range 3 {
			require.NoError(t, q.SetQuotas(t.Context(), wide))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, q.SetQuotas(t.Context(), narrow))
		}
		g.all.Wait()
		assert.Less(t, time.Since(start), 20*time.Second)
	})
}
