package engines

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/embedded"
)

func server(t *testing.T) *redis.Client {
	t.Helper()
	s, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s.Client()
}

func TestEveryEngineLetsThroughAndNamesItsKeysAfterItself(t *testing.T) {
	t.Parallel()
	quota := scenario.Quota{Permits: 4, Per: 200 * time.Millisecond}
	for _, e := range All {
		if e.Only == "learns" { // its calls wait on their way
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			rdb := server(t)
			load := scenario.Load{Quota: quota, Flow: "me", Clients: 2}
			limiter, err := e.Open(Setup{Load: load, Redis: rdb, Name: t.Name()})
			require.NoError(t, err)
			began := time.Now()
			for range 12 {
				require.NoError(t, limiter.Acquire(t.Context(), 1))
			}
			require.Greater(t, time.Since(began), 150*time.Millisecond, "the quota holds in a way")
			require.NoError(t, limiter.Acquire(t.Context(), 3), "several permits")

			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			for err == nil {
				err = limiter.Acquire(ctx, 1)
			}
			require.Less(t, time.Since(began), time.Minute, "a deadline is kept")

			left, err := rdb.Keys(t.Context(), "*").Result()
			require.NoError(t, err)
			require.NotEmpty(t, left)
			for _, key := range left {
				require.Contains(t, key, t.Name(), "or it would not be removed")
			}
		})
	}
}
