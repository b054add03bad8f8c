package fair

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// ceilings are those that Inspect tells of.
func ceilings(t testing.TB, f *fair, flows ...string) []Ceiling {
	t.Helper()
	s := inspected(t, f)
	all, err := f.inspectLogs(t.Context(), &s, flows)
	require.NoError(t, err)
	return all
}

func TestInspectTellsWhatWasSaidOfAFlow(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		require.Empty(t, ceilings(t, f))
		flow := flowUnder(t, f, "a", "2/1m")
		require.NoError(t, f.PauseFlow(t.Context(), "b", 30*time.Second))
		require.True(t, take(t, f, engine.Request{N: 1, Flow: flow})[0].Granted)
		two := Ceiling{Flow: "a", Windows: []Window{{2, time.Minute, 1}}}
		half := 30*time.Second + time.Microsecond // no turn is granted at the end itself
		paused := Ceiling{Flow: "b", Next: half, Paused: half}
		require.Equal(t, []Ceiling{two, paused}, ceilings(t, f))
		require.Equal(t, []Ceiling{two}, ceilings(t, f, "c", "a", "a"), "only those that are named and there")

		five := quotas(t, "1/5s")[0]
		require.NoError(t, f.SetCeiling(t.Context(), "a", &five))
		at(time.Second)
		stored := Ceiling{Flow: "a", Windows: []Window{{1, 5 * time.Second, 1}}, Quota: five, Next: 4 * time.Second}
		require.Equal(t, []Ceiling{stored}, ceilings(t, f, "a"))
		require.NoError(t, f.SetCeiling(t.Context(), "a", nil))
		require.Equal(t, []Ceiling{two}, ceilings(t, f, "a"), "the given one is still known")
		require.NoError(t, f.Reset(t.Context()))
		two.Windows[0].Held = 0
		require.Equal(t, []Ceiling{two, {Flow: "b"}}, ceilings(t, f), "a reset forgets what counted")

		require.NoError(t, w.rdb.ZAdd(t.Context(), f.logKey("b"), redis.Z{Score: 1, Member: "x"}).Err())
		s := inspected(t, f)
		_, err := f.inspectLogs(t.Context(), &s, nil)
		require.ErrorIs(t, err, engine.ErrState)
		require.ErrorContains(t, err, f.logKey("b"))
	})
}

// The logs are found on the server that has them, under any name and id.
func TestInspectFindsTheLogsOfAQueue(t *testing.T) {
	t.Parallel()
	for _, rdb := range []redis.UniversalClient{redistest.Standalone(t), redistest.Cluster(t)} {
		for i := range 5 { // on every node of a Cluster
			name := fmt.Sprintf(`%s[*?\%d`, redistest.Name(t), i)
			e, err := New(engine.Config{Client: rdb, Name: name})
			require.NoError(t, err)
			f, quota := e.(*fair), quotas(t, "1/1s")[0]
			for n := range logsAtOnce + 1 {
				require.NoError(t, f.SetCeiling(t.Context(), fmt.Sprintf("tenant}%03d", n), &quota))
			}
			s, err := Inspect(t.Context(), rdb, name, WithCeilings())
			require.NoError(t, err)
			require.Len(t, s.Ceilings, logsAtOnce+1)
			require.Equal(t, Ceiling{
				Flow: "tenant}100", Windows: []Window{{1, time.Second, 0}}, Quota: quota,
			}, s.Ceilings[100])
		}
	}
}
