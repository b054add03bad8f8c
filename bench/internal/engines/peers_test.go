package engines

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/embedded"
)

func open(t *testing.T, e Engine, rdb redis.UniversalClient, permits int, per time.Duration, clients int) Acquirer {
	t.Helper()
	quota := scenario.Quota{Permits: permits, Per: per}
	limiter, err := e.Open(rdb, t.Name(), scenario.Load{Quota: quota, Clients: clients}, measure.Now)
	require.NoError(t, err)
	return limiter
}

func server(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestEveryEngineLetsThroughAndNamesItsKeysAfterItself(t *testing.T) {
	t.Parallel()
	for _, e := range All {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			limiter := open(t, e, s.Client(), 4, 200*time.Millisecond, 2)
			began := time.Now()
			for range 12 {
				_, err := limiter.Acquire(t.Context(), 1)
				require.NoError(t, err)
			}
			require.Greater(t, time.Since(began), 150*time.Millisecond, "the quota holds in a way")
			require.Less(t, time.Since(began), 5*time.Second)

			_, err := limiter.Acquire(t.Context(), 3)
			require.NoError(t, err, "several permits")

			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			for err == nil {
				_, err = limiter.Acquire(ctx, 1)
			}
			require.Less(t, time.Since(began), 10*time.Second, "a deadline is kept")

			left, err := s.Client().Keys(t.Context(), "*").Result()
			require.NoError(t, err)
			require.NotEmpty(t, left)
			for _, key := range left {
				require.Contains(t, key, t.Name(), "or it would not be removed")
			}
		})
	}
}

func TestRedisRateAdmitsTwiceItsQuotaInAWindow(t *testing.T) {
	t.Parallel()
	most := 0
	for range 10 { // a busy machine may be too slow to show it in one window
		limiter := open(t, redisRateEngine, server(t).Client(), 10, 500*time.Millisecond, 1)
		began, admitted := time.Now(), 0
		for time.Since(began) < 480*time.Millisecond {
			_, err := limiter.Acquire(t.Context(), 1)
			require.NoError(t, err)
			admitted++
		}
		if most = max(most, admitted); most > 14 {
			break
		}
	}
	require.Greater(t, most, 14, "a whole burst, and what trickles in meanwhile")
}
