package fairlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestATraceIsToldOnceThatQuotasDiffer(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var slow, fast, same events
		service := func(e *events, quota fairlimit.Quota, opts ...fairlimit.Option) *fairlimit.Queue {
			return queueOf(t, rdb, "n", quota, append(opts, fairlimit.WithTrace(e.trace()))...)
		}
		told := func(e *events) int { return len(e.of("QuotasDiffer")) }
		two, ten := service(&slow, fairlimit.PerSecond(2)), service(&fast, fairlimit.PerSecond(10))
		twin := service(&same, fairlimit.PerSecond(10))
		ask := func(queues ...*fairlimit.Queue) {
			for range 20 {
				for _, q := range queues {
					require.NoError(t, q.Wait(t.Context()))
				}
			}
		}
		ask(ten, twin)
		require.Zero(t, told(&fast)+told(&same), "all have the same quota")
		ask(two, ten)
		require.Equal(t, 1, told(&slow))
		require.Equal(t, 1, told(&fast))
		require.Zero(t, told(&same), "it has not asked meanwhile")
		time.Sleep(5 * time.Minute)
		ask(two, ten)
		require.Zero(t, told(&slow)+told(&fast), "it is known")
		ask(ten)
		time.Sleep(11 * time.Minute)
		ask(ten, two)
		require.Equal(t, 1, told(&slow), "it is so again")
	})
}

func TestATraceIsToldWhichQuotasItsLimiterHas(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var told []fairlimit.Quota
		trace := &fairlimit.Trace{QuotasDiffer: func(own []fairlimit.Quota) { told = own }}
		two, ten := fairlimit.PerSecond(2), fairlimit.PerMinute(10)
		require.NoError(t, queueOf(t, rdb, "n", two).Wait(t.Context()))
		q := queueOf(t, rdb, "n", two, fairlimit.WithExtraQuota(ten), fairlimit.WithTrace(trace))
		require.NoError(t, q.Wait(t.Context()))
		require.Equal(t, []fairlimit.Quota{two, ten}, told)
	})
}

func TestAnotherGuardDiffersAndAnotherStoredQuotaDoesNot(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var seen events
		service := func(opts ...fairlimit.Option) *fairlimit.Queue {
			return queueOf(t, rdb, "n", fairlimit.PerSecond(2), append(opts, fairlimit.WithTrace(seen.trace()))...)
		}
		told := func() int { return len(seen.of("QuotasDiffer")) }
		a, b := service(fairlimit.WithStoredQuota()), service(fairlimit.WithStoredQuota())
		for n := range 5 {
			require.NoError(t, a.SetQuotas(t.Context(), fairlimit.PerSecond(n+1)))
			require.NoError(t, b.Wait(t.Context()))
			require.NoError(t, a.Wait(t.Context()))
		}
		require.Zero(t, told())
		guarded := service(fairlimit.WithStoredQuota(), fairlimit.WithGuard(time.Second))
		require.NoError(t, guarded.Wait(t.Context()))
		require.Equal(t, 1, told())
	})
}
