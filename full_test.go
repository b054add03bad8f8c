package fairlimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAFullQueueRefusesEveryCallAndTellsItsStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quota fairlimit.Quota
		n     int
	}{
		"too many permits": {fairlimit.PerSecond(1_000_000_000), 430_000_000},
		"too late a slot":  {fairlimit.Every(10 * 360 * 24 * time.Hour), 1},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
				q := limitertest.New(t, rdb, c.quota)
				var err error
				permits := 0
				for ; err == nil; permits += c.n {
					_, err = q.ReserveN(t.Context(), c.n)
				}
				require.ErrorIs(t, err, fairlimit.ErrFull)
				require.LessOrEqual(t, permits-c.n, 10_000_000_000)
				require.ErrorIs(t, q.WaitN(t.Context(), c.n), fairlimit.ErrFull)
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				require.ErrorIs(t, q.WaitN(ctx, c.n), context.DeadlineExceeded)
				s := limitertest.Status(t, q)
				require.Positive(t, s.Queued)
				require.Positive(t, s.Delay)
			})
		})
	}
}
