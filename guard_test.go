package fairlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// delayOf is how long the second of two turns comes after the first.
func delayOf(t *testing.T, q *fairlimit.Queue) time.Duration {
	t.Helper()
	for range 2 {
		_, err := q.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	status, err := q.Status(t.Context())
	require.NoError(t, err)
	return status.Delay / 2
}

func TestAGuardIsTakenWhereNoneIsGiven(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		made := func(q *fairlimit.Queue, err error) *fairlimit.Queue {
			require.NoError(t, err)
			return q
		}
		stored := made(fairlimit.Open(rdb, "stored", fairlimit.WithStoredQuota()))
		require.NoError(t, stored.SetQuotas(t.Context(), fairlimit.Every(100*time.Millisecond)))
		for name, c := range map[string]struct {
			queue *fairlimit.Queue
			want  time.Duration
		}{
			"long":   {made(fairlimit.NewQueue(rdb, "long", fairlimit.Every(time.Minute))), time.Minute + 50*time.Millisecond},
			"short":  {made(fairlimit.NewQueue(rdb, "short", fairlimit.Every(time.Second/5))), time.Second/5 + 10*time.Millisecond},
			"none":   {made(fairlimit.NewQueue(rdb, "none", fairlimit.Every(time.Second), fairlimit.WithGuard(0))), time.Second},
			"stored": {stored, 105 * time.Millisecond},
			"tiny":   {made(fairlimit.NewQueue(rdb, "tiny", fairlimit.Every(19*time.Microsecond))), 19 * time.Microsecond},
			"the shortest of two": {made(fairlimit.NewQueue(rdb, "two", fairlimit.Every(time.Minute),
				fairlimit.WithExtraQuota(fairlimit.Quota{Permits: 9, Per: time.Second / 5}))), time.Minute + 10*time.Millisecond},
			"flow": {
				made(fairlimit.NewQueue(rdb, "flow", fairlimit.Every(time.Second), fairlimit.WithFlow("a", 1))),
				time.Second + 50*time.Millisecond,
			},
		} {
			require.Equal(t, c.want, delayOf(t, c.queue), name)
		}
	})
}

func TestWindowHasNoGuard(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l, err := fairlimit.New(rdb, "n", fairlimit.PerSecond(1), fairlimit.WithEngine(window.New))
		require.NoError(t, err)
		began := time.Now()
		for range 3 {
			require.NoError(t, l.Wait(t.Context()))
		}
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}
