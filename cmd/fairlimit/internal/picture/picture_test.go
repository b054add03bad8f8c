package picture

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// look is the picture of a queue that was given these quotas.
func look(ctx context.Context, t *testing.T, rdb redis.UniversalClient, quotas string) (Queue, error) {
	t.Helper()
	calls, units, err := quotatext.ParseAll(quotas)
	require.NoError(t, err)
	opts := []fairlimit.Option{fairlimit.WithGuard(0), fairlimit.WithStoredQuota()}
	q, err := fairlimit.Open(rdb, "tax", opts...)
	if len(calls) > 0 {
		q, err = fairlimit.NewQueue(rdb, "tax", fairlimit.Quota(calls[0]), opts...)
	}
	require.NoError(t, err)
	return Source{Redis: rdb, Prefix: "fairlimit:", Name: "tax", Queue: q, Calls: calls, Units: units}.Look(ctx)
}

func TestAQueueIsSeenAsItMoves(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, err := fairlimit.NewQueue(rdb, "tax", fairlimit.PerSecond(5), fairlimit.WithGuard(0))
		require.NoError(t, err)
		for range 12 {
			_, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		p, err := look(t.Context(), t, rdb, "5/1s")
		require.NoError(t, err)
		require.Equal(t, []any{7, 0, 2000.0, 2000.0}, []any{p.Queued, *p.Available, p.Next, p.Tail})
		require.Equal(t, []Slot{{0, 5}, {1000, 5}, {2000, 2}}, p.Slots)
		require.Empty(t, p.Notes)

		time.Sleep(500 * time.Millisecond)
		require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		p, err = look(t.Context(), t, rdb, "")
		require.NoError(t, err)
		require.Nil(t, p.Available, "nobody knows the quota")
		require.Equal(t, []any{3000.0, 4500.0, 4500.0}, []any{p.Paused, p.Next, p.Tail})
		require.Equal(t, []Slot{{-500, 5}, {3500, 5}, {4500, 2}}, p.Slots)
	})
}

func TestAUnitThatNobodyHasCountedIsFree(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		require.NoError(t, rdb.Set(t.Context(), "fairlimit:{tax}:quota", "60/1m; tokens 1000/1m burst 50", 0).Err())
		p, err := look(t.Context(), t, rdb, "")
		require.NoError(t, err)
		require.True(t, p.Idle)
		require.Equal(t, 60, *p.Available)
		require.Len(t, p.Units, 1)
		require.Equal(t, 50, *p.Units[0].Available)
		require.Equal(t, []string{"1000/1m burst 50"}, p.Units[0].Quotas)

		require.NoError(t, rdb.Set(t.Context(), "fairlimit:{tax}:quota", "plenty", 0).Err())
		p, err = look(t.Context(), t, rdb, "")
		require.ErrorIs(t, err, fairlimit.ErrState)
		require.Nil(t, p.Available)
	})
}

func TestTheFullestWindowIsFound(t *testing.T) {
	now := time.Unix(1000, 0)
	var cells []fair.Cell
	for _, second := range []int{-50, -20, -5, 10} {
		cells = append(cells, fair.Cell{At: now.Add(time.Duration(second) * time.Second), Permits: 2})
	}
	require.Equal(t, 2, mostWithin(cells, 15*time.Second), "a window has one end only")
	require.Equal(t, 4, mostWithin(cells, 16*time.Second))
	require.Equal(t, 8, mostWithin(cells, time.Hour))
	require.Zero(t, mostWithin(nil, time.Hour))
}
