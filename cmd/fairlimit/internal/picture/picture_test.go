package picture

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// drawn is the picture of a queue on a clock that stands still meanwhile.
func drawn(t *testing.T, rdb redis.UniversalClient, quotas string) (Queue, []string) {
	t.Helper()
	s, err := Inspect(t.Context(), rdb, "tax", "fairlimit:")
	require.NoError(t, err)
	calls, units, err := quotatext.ParseAll(quotas)
	require.NoError(t, err)
	q, err := Of("tax", s, calls, units, 0)
	require.NoError(t, err)
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
		p, rows := drawn(t, rdb, "5/1s")
		require.Equal(t, int64(7), p.Queued)
		require.Equal(t, 2000.0, p.Next)
		require.Equal(t, int64(0), *p.Available)
		require.Equal(t, 100.0, p.Line.Step)
		require.Equal(t, "  line  ───────────────●|─────────●─────────●─○─○─○─○─○─○─○─○─○─○─○─○─○─○", rows[0])
		require.Equal(t, "  used                 █|███████████████████▄▄▄▄▄▄▄▄▄▄", strings.TrimRight(strings.TrimSuffix(rows[1], " calls"), " "))
		require.Equal(t, "        a column is 100ms: ● granted, ○ free, ┊ paused", rows[2])
		time.Sleep(500 * time.Millisecond)
		p, rows = drawn(t, rdb, "5/1s")
		require.Equal(t, 1500.0, p.Next)
		require.Equal(t, "  line  ───●────────────|────────────●────────────────────────●────○────○", rows[0])

		require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		p, rows = drawn(t, rdb, "5/1s")
		require.Contains(t, rows[0], "|┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊┊────●")
		require.Equal(t, 3000.0, p.Paused)
	})
}

func TestWhatIsFarIsANumber(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, err := fairlimit.NewQueue(rdb, "tax", fairlimit.Every(time.Second), fairlimit.WithGuard(0))
		require.NoError(t, err)
		f, err := q.Flow("billing", 2)
		require.NoError(t, err)
		for i := range 503 {
			r := q
			if i < 3 {
				r = f
			}
			_, err := r.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		p, rows := drawn(t, rdb, "")
		require.Equal(t, 2, p.Flows[0].Weight)
		require.Nil(t, p.Available, "nobody knows the quota")
		require.Equal(t, p.Tail, p.Next)
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
		p, rows := drawn(t, rdb, "5/1s; output-tokens 100/1s")
		require.Equal(t, "  used                 ▂|▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂ calls", rows[1])
		require.Regexp(t, `^  used                 ▆\|▆+ output$`, rows[2])
		require.Equal(t, int64(75), p.Units[0].Queued)
		require.Zero(t, *p.Units[0].Available)
	})
}

func TestAUnitThatNobodyHasCountedIsFree(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		text := "60/1m; tokens 1000/1m burst 50"
		require.NoError(t, rdb.Set(t.Context(), "fairlimit:{tax}:quota", text, 0).Err())
		p, _ := drawn(t, rdb, "")
		require.True(t, p.Idle)
		require.Equal(t, int64(60), *p.Available)
		require.Len(t, p.Units, 1)
		require.Equal(t, int64(50), *p.Units[0].Available)
		require.Equal(t, []string{"1000/1m burst 50"}, p.Units[0].Quotas)
	})
}

// What follows from a log is what the rule of the queue says.
func TestWhatTheQuotasLeave(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	s := &State{Now: now, Begun: at(-100), Tail: at(-5), Units: []UnitLog{
		{Total: 50, Cells: []Cell{
			{At: at(-50), Permits: 2}, {At: at(-20), Permits: 3}, {At: at(-5), Permits: 1},
		}},
	}}
	of := func(quotas string, guard time.Duration) Queue {
		calls, _, err := quotatext.ParseAll(quotas)
		require.NoError(t, err)
		q, err := Of("tax", s, calls, nil, guard)
		require.NoError(t, err)
		return q
	}
	q := of("5/1m 4/30s", 0)
	require.Equal(t, []Window{{5, 60_000, 6}, {4, 30_000, 4}}, q.Windows)
	require.Equal(t, 10_000.0, q.Next)
	require.Zero(t, *q.Available)
	require.Equal(t, 11_000.0, of("5/1m 4/30s", time.Second).Next)
	q = of("10/1m burst 5", 0)
	require.Equal(t, int64(1), *q.Available, "a burst is a window of half a minute")
	require.Zero(t, q.Next)
	require.Equal(t, 60_250.0, of("10/1m burst 5", DefaultGuard).Windows[0].Per)
}

func TestWhatIsUnusualIsNoted(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &State{Now: now, Begun: now.Add(-3 * time.Second), Voided: true}
	s.Units = []UnitLog{{Missing: true}, {Name: "tokens"}}
	q, err := Of("tax", s, nil, nil, 0)
	require.NoError(t, err)
	require.Equal(t, []string{
		"requeued 3s ago: whoever waits asks again, in order", "Redis has lost the log of calls",
	}, q.Notes)
	q, err = Of("tax", &State{Now: now, Begun: now, Units: []UnitLog{{}}, Paused: time.Second}, nil, nil, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"nothing was granted since the queue began: is the name spelt right?"}, q.Notes)
	_, err = Of("tax", &State{Now: now, Stored: "plenty"}, nil, nil, 0)
	require.ErrorIs(t, err, fairlimit.ErrState)
}
