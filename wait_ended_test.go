package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

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

// A limiter hears of another's pause, or of its narrower quota. Then the server
// loses all, and the only one that asks is that limiter.
func TestTurnsThatWereHeardToComeLaterCountThatLate(t *testing.T) {
	for what, c := range map[string]struct {
		puts func(q *fairlimit.Queue, t *testing.T) error
		asks time.Duration // shortly before the next turns come
	}{
		"in a pause": {func(q *fairlimit.Queue, t *testing.T) error {
			return q.Pause(t.Context(), time.Minute)
		}, 60*time.Second + 950*time.Millisecond},
		"by a narrower quota": {func(q *fairlimit.Queue, t *testing.T) error {
			return q.SetQuotas(t.Context(), fairlimit.Quota{Permits: 10, Per: 10 * time.Second})
		}, 9950 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := redistest.Mini(t)
				quota, name := fairlimit.PerSecond(10), redistest.Name(t)
				hears := queueOf(t, m.Client, name, quota, fairlimit.WithStoredQuota())
				other := queueOf(t, m.Client, name, quota, fairlimit.WithStoredQuota())
				start := time.Now()
				var g goers
				g.wait(t, hears, 0, 40)
				time.Sleep(time.Millisecond)
				require.NoError(t, c.puts(other, t))
				status(t, hears)
				time.Sleep(5*time.Second - time.Since(start))
				require.NoError(t, m.Client.FlushAll(t.Context()).Err())
				time.Sleep(c.asks - time.Since(start))
				g.wait(t, hears, 40, 10)
				g.all.Wait()
				assert.LessOrEqual(t, g.most(time.Second), 10)
			})
		})
	}
}
