package picture

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// drawn is the picture of a queue on a clock that stands still meanwhile.
func drawn(t *testing.T, rdb redis.UniversalClient) (Queue, []string) {
	t.Helper()
	s, err := fair.Inspect(t.Context(), rdb, "tax")
	require.NoError(t, err)
	q := Of("tax", s, nil, nil)
	return q, strings.Split(q.Text(), "\n")
}

func TestALineIsDrawnAsItMoves(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		time.Sleep(time.Second) // to a round time, as columns are
		q, err := fairlimit.NewQueue(rdb, "tax", fairlimit.PerSecond(5), fairlimit.WithGuard(0))
		require.NoError(t, err)
		for range 12 {
			_, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		p, rows := drawn(t, rdb)
		require.Equal(t, int64(7), p.Queued)
		require.Equal(t, 2000.0, p.Next)
		require.Equal(t, int64(0), *p.Available)
		require.Equal(t, 100.0, p.Line.Step)
		require.Equal(t, "  line  ───────────────●|─────────●─────────●─○─○─○─○─○─○─○─○─○─○─○─○─○─○", rows[0])
		require.Equal(t, "  used                 █|███████████████████▄▄▄▄▄▄▄▄▄▄", strings.TrimRight(strings.TrimSuffix(rows[1], " calls"), " "))
		require.Equal(t, "        a column is 100ms: ● granted, ○ free, ┊ paused, a the newest of a flow", rows[2])
		time.Sleep(500 * time.Millisecond)
		p, rows = drawn(t, rdb)
		require.Equal(t, 1500.0, p.Next)
		require.Equal(t, "  line  ───●────────────|────────────●────────────────────────●────○────○", rows[0])

		require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		_, rows = drawn(t, rdb)
		require.Contains(t, rows[0], "|┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊────●")
		time.Sleep(time.Minute)
		p, _ = drawn(t, rdb)
		require.True(t, p.Idle)
	})
}

func TestFlowsAreLettersAndWhatIsFarIsANumber(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, err := fairlimit.NewQueue(rdb, "tax", fairlimit.Every(time.Second), fairlimit.WithGuard(0))
		require.NoError(t, err)
		f, err := q.Flow("billing", 2)
		require.NoError(t, err)
		for range 3 {
			_, err := f.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		p, rows := drawn(t, rdb)
		require.Contains(t, rows[0], "a")
		require.Equal(t, 2, p.Flows[0].Weight)
		require.InDelta(t, 2000, p.Flows[0].Newest, 10)

		for range 500 {
			_, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		p, rows = drawn(t, rdb)
		for _, row := range rows {
			require.LessOrEqual(t, len([]rune(row)), 80)
		}
		sum := p.Line.Beyond
		for _, n := range p.Line.Permits[Back:] {
			sum += n
		}
		require.InDelta(t, p.Queued, sum, 1)
	})
}

func TestEachUnitHasARowOfWhatIsUsed(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		time.Sleep(time.Second)
		q, err := fairlimit.NewQueue(rdb, "tax", fairlimit.PerSecond(5), fairlimit.WithGuard(0),
			fairlimit.WithUnit("output-tokens", fairlimit.PerSecond(100)))
		require.NoError(t, err)
		for range 2 {
			_, err := q.ReserveAmounts(t.Context(), fairlimit.Amounts{"output-tokens": 75})
			require.NoError(t, err)
		}
		_, rows := drawn(t, rdb)
		require.Equal(t, "  used                 ▂|▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂ calls", rows[1])
		require.Regexp(t, `^  used                 ▆\|▆+ output$`, rows[2])
	})
}

func TestAUnitThatNobodyHasCountedIsFree(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		text := "60/1m; tokens 1000/1m burst 50"
		require.NoError(t, rdb.Set(t.Context(), "fairlimit:{tax}:quota", text, 0).Err())
		p, _ := drawn(t, rdb)
		require.True(t, p.Idle)
		require.Len(t, p.Units, 1)
		require.Equal(t, int64(50), p.Units[0].Available)
		require.Equal(t, int64(50), p.Units[0].Most)
		require.Equal(t, []string{"1000/1m burst 50"}, p.Units[0].Quotas)

		q, err := fairlimit.NewQueue(rdb, "tax", fairlimit.PerMinute(1), fairlimit.WithGuard(0))
		require.NoError(t, err)
		require.NoError(t, q.Wait(t.Context()))
		p, _ = drawn(t, rdb)
		require.True(t, p.Differ)
		require.Zero(t, p.Units[0].Available, "one more would stand in the line")
	})
}
