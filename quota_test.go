package fairlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestEachCallerIsHeldToAllQuotas(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.PerSecond(2), fairlimit.WithExtraQuota(fairlimit.PerMinute(3)),
			fairlimit.WithExtraQuota(fairlimit.PerHour(5)))
		start := time.Now()
		var went []time.Duration
		for range 6 {
			require.NoError(t, l.Wait(t.Context()))
			went = append(went, time.Since(start).Round(time.Millisecond))
		}
		assert.Equal(t, []time.Duration{0, 0, time.Second, time.Minute, time.Minute, time.Hour}, went)
		require.ErrorIs(t, l.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
	})
}

func TestMoreThanABurstExceedsTheQuota(t *testing.T) {
	l, err := fairlimit.New(nowhere(t), "n", fairlimit.Quota{Permits: 10, Per: time.Second, Burst: 2})
	require.NoError(t, err)
	require.ErrorIs(t, l.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
}
