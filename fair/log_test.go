package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
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

// What Inspect tells of a log is what the next request of the flow meets.
func TestInspectTellsWhatACeilingHolds(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 28))
			f, at := w.queue(t, quotas(t, "10/1s 10000/1h")...) // it outlives the ceiling
			flow := flowUnder(t, f, "a", []string{"2/1s", "5/3s burst 2", "30/1m", "1/7s"}[seed])
			windows := *flow.Ceiling.(*ceiling).held.Load()
			var log []model.Turn
			now := time.Duration(0)
			for range 100 {
				now += time.Duration(rng.IntN(400)) * time.Millisecond
				at(now)
				for _, a := range take(t, f, engine.Request{N: 1, MaxWait: time.Second, Flow: flow}) {
					if a.Granted {
						log = append(log, model.Turn{Slot: a.Grant.At, N: 1})
					}
				}
				told := ceilings(t, f)
				require.Len(t, told, 1)
				clock := beginning.Add(now).UnixMicro()
				require.Equal(t, max(0, model.Room(modelsOf(windows), log, 1)-clock), told[0].Next.Microseconds())
				for i, own := range windows {
					held := 0
					for _, b := range log {
						if b.Slot+own.Length > clock {
							held += b.N
						}
					}
					require.Equal(t, Window{own.Permits, microseconds(own.Length), int64(held)}, told[0].Windows[i])
				}
			}
		}
	})
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
