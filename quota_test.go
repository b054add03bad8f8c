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

func TestAQuotaIsText(t *testing.T) {
	for text, quota := range map[string]fairlimit.Quota{
		"20/1s":            fairlimit.PerSecond(20),
		"100/2m burst 10":  {Permits: 100, Per: 2 * time.Minute, Burst: 10},
		"1/1h30m":          fairlimit.Every(90 * time.Minute),
		"3/500ms":          {Permits: 3, Per: 500 * time.Millisecond},
		"1000000/24h":      {Permits: 1_000_000, Per: 24 * time.Hour},
		"1/1.5s":           fairlimit.Every(1500 * time.Millisecond),
		"60/1m burst 1":    {Permits: 60, Per: time.Minute, Burst: 1},
		"9/1h0m1s burst 9": {Permits: 9, Per: time.Hour + time.Second, Burst: 9},
	} {
		got, err := fairlimit.ParseQuota(text)
		require.NoError(t, err, text)
		assert.Equal(t, quota, got, text)
		again, err := fairlimit.ParseQuota(quota.String())
		require.NoError(t, err, quota)
		assert.Equal(t, quota, again)
	}
	assert.Equal(t, "100/2m burst 10", fairlimit.Quota{Permits: 100, Per: 2 * time.Minute, Burst: 10}.String())
	assert.Equal(t, "20/1s", fairlimit.PerSecond(20).String())
	for _, text := range []string{
		"", "20", "20/", "/1s", "20/1s 3/1m", "0/1s", "3/0s", "3/-1s", "3/1s burst", "3/1s burst 4", "x/1s",
	} {
		_, err := fairlimit.ParseQuota(text)
		require.ErrorIs(t, err, fairlimit.ErrInvalidQuota, text)
	}
}
