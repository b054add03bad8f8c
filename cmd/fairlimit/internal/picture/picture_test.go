package picture

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestAQueueIsSeenAsItMoves(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, err := fairlimit.NewQueue(rdb, "tax", fairlimit.PerSecond(5), fairlimit.WithGuard(0))
		require.NoError(t, err)
		for range 12 {
			_, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		s := Source{Redis: rdb, Prefix: "fairlimit:", Name: "tax", Queue: q}
		s.Calls = []engine.Quota{{Permits: 5, Per: time.Second}}
		p, err := s.Look(t.Context())
		require.NoError(t, err)
		require.Equal(t, []any{7, 0, 2000.0, 2000.0}, []any{p.Queued, *p.Available, p.Next, p.Tail})
		require.Equal(t, []Slot{{0, 5}, {1000, 5}, {2000, 2}}, p.Slots)
		require.Empty(t, p.Notes)

		time.Sleep(500 * time.Millisecond)
		require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		s.Calls = nil
		p, err = s.Look(t.Context())
		require.NoError(t, err)
		require.Nil(t, p.Available, "nobody knows the quota")
		require.Equal(t, []any{3000.0, 4500.0, 4500.0}, []any{p.Paused, p.Next, p.Tail})
		require.Equal(t, []Slot{{-500, 5}, {3500, 5}, {4500, 2}}, p.Slots)
	})
}

func TestTheFullestWindowIsFound(t *testing.T) {
	now := time.Unix(1000, 0)
	var cells []fair.Cell
	for _, second := range []int{-50, -20, -5, 10} {
		cells = append(cells, fair.Cell{At: now.Add(time.Duration(second) * time.Second), Permits: 2})
	}
	require.Equal(t, 2, mostWithin(cells, 15*time.Second, time.Time{}), "a window has one end only")
	require.Equal(t, 4, mostWithin(cells, 16*time.Second, time.Time{}))
	require.Equal(t, 8, mostWithin(cells, time.Hour, time.Time{}))
	require.Equal(t, 4, mostWithin(cells, time.Hour, now.Add(-20*time.Second)))
	require.Zero(t, mostWithin(nil, time.Hour, now))
}
