package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// flowUnder is a flow with a ceiling, if it is given one.
func flowUnder(t testing.TB, f *fair, id, quota string) *engine.Flow {
	t.Helper()
	flow := &engine.Flow{ID: id, Weight: 1}
	if quota != "" {
		made, err := f.CeilingOf(quotas(t, quota)[0])
		require.NoError(t, err)
		flow.Ceiling = made
	}
	return flow
}

// A turn of a flow comes where the queue and its ceiling have room. If the
// ceiling has none so soon, the answer says from when on. Some turns are given
// back, by those that hold them or have gone.
func TestATurnOfAFlowComesWhereBothHaveRoom(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(redistest.Long(2, 10)) {
			rng := rand.New(rand.NewPCG(seed, 28))
			f, at := w.queue(t, quotas(t, []string{"10/1s", "1/50ms", "20/1s burst 5", "10/1s 100/1m"}[rng.IntN(4)])...)
			limiters := []*fair{f, f.joins(t, f.quotas...)}
			texts := []string{"", "2/1s", "5/3s burst 2", "30/1m", "3/100ms", "1/7s"}
			logs, held := map[string][]model.Turn{}, map[string][]engine.Grant{}
			now := time.Duration(0)
			for step := range redistest.Long(150, 500) {
				now += time.Duration(rng.IntN(200)) * time.Millisecond
				at(now)
				l, id := limiters[rng.IntN(2)], fmt.Sprint(rng.IntN(len(texts)))
				flow := flowUnder(t, l, id, texts[id[0]-'0'])
				if grants := held[id]; len(grants) > 0 && rng.IntN(5) == 0 {
					i := rng.IntN(len(grants))
					g := grants[i]
					g.Unused = true
					require.NoError(t, l.GiveBack(t.Context(), []engine.Grant{g}))
					held[id] = slices.Delete(grants, i, i+1)
					if own, _ := flow.Ceiling.(*ceiling); own != nil && g.At+(*own.held.Load())[0].Length > l.memory.now().clock {
						i = slices.Index(logs[id], model.Turn{Slot: g.At, N: g.N})
						logs[id] = slices.Delete(logs[id], i, i+1)
					}
					continue
				}
				var requests []engine.Request
				for range 1 + rng.IntN(4) {
					longest := time.Duration(rng.IntN(8000)) * time.Millisecond
					requests = append(requests, engine.Request{N: 1 + rng.IntN(2), MaxWait: longest, Flow: flow})
				}
				own, _ := flow.Ceiling.(*ceiling)
				requests = slices.DeleteFunc(requests, func(r engine.Request) bool {
					return l.Fits(r.N) != nil || own != nil && own.Fits(r.N) != nil
				})
				if len(requests) == 0 {
					continue
				}
				for i, a := range take(t, l, requests...) {
					n, what := requests[i].N, fmt.Sprintf("seed %d, step %d, request %d: %+v", seed, step, i, a)
					require.NoError(t, a.Err, what)
					clock := beginning.Add(now).UnixMicro()
					if a.Granted {
						if own != nil {
							require.LessOrEqual(t, model.Room(modelsOf(*own.held.Load()), logs[id], n), a.Grant.At, what)
						}
						logs[id], held[id] = append(logs[id], model.Turn{Slot: a.Grant.At, N: n}), append(held[id], a.Grant)
					}
					if a.Left && a.Wait > 0 {
						from := model.Room(modelsOf(*own.held.Load()), logs[id], n)
						require.LessOrEqual(t, clock+a.Wait.Microseconds(), from, what)
						require.GreaterOrEqual(t, a.Wait.Microseconds(), (from-clock)/16, what)
						require.LessOrEqual(t, from, clock+requests[i].MaxWait.Microseconds(), what)
					}
					if a.Ceiling {
						require.Equal(t, model.Room(modelsOf(*own.held.Load()), logs[id], n), clock+a.Wait.Microseconds(), what)
						require.Greater(t, a.Wait, requests[i].MaxWait, what)
					}
				}
				for _, c := range ceilings(t, l, id) {
					isTold(t, c, *own.held.Load(), logs[id], beginning.Add(now).UnixMicro())
				}
			}
		}
	})
}

// isTold requires that Inspect tells of a ceiling what the turns of its flow mean.
func isTold(t *testing.T, told Ceiling, windows []window, turns []model.Turn, clock int64) {
	t.Helper()
	require.Equal(t, max(0, model.Room(modelsOf(windows), turns, 1)-clock), told.Next.Microseconds())
	for i, own := range windows {
		held := 0
		for _, turn := range turns {
			if turn.Slot+own.Length > clock {
				held += turn.N
			}
		}
		require.Equal(t, Window{own.Permits, microseconds(own.Length), int64(held)}, told.Windows[i])
	}
}

// What a limiter knows to be lost counts as a full ceiling. What was reset does
// not.
func TestACeilingOutlivesALossAndEndsWithAReset(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		flow := flowUnder(t, f, "a", "3/1m")
		ask := func() engine.Answer {
			return take(t, f, engine.Request{N: 1, MaxWait: 0, Flow: flow})[0]
		}
		for i := range 3 {
			at(time.Duration(i) * time.Second)
			require.True(t, ask().Granted)
		}
		at(10 * time.Second)
		require.Equal(t, 50*time.Second, ask().Wait)
		require.NoError(t, w.rdb.Del(t.Context(), f.key, f.logKey("a")).Err())
		lost := ask()
		require.True(t, lost.Ceiling)
		require.Equal(t, time.Minute, lost.Wait)
		require.NoError(t, f.joins(t, f.quotas...).Reset(t.Context()))
		for i := range 3 {
			at(time.Duration(20+i) * time.Second)
			require.True(t, ask().Granted, "a reset forgets what was counted")
		}
		require.True(t, ask().Ceiling)
		at(3 * time.Minute)
		require.True(t, ask().Granted)
	})
}

// A log keeps some 128 slots, on the safe side: turns of one place count at the
// last of them.
func TestTheLogOfAFlowStaysSmall(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		flow := flowUnder(t, f, "a", "1000/1h")
		var all []model.Turn
		for i := range 1500 {
			at(time.Duration(i) * 3 * time.Second)
			a := take(t, f, engine.Request{N: 1, MaxWait: 0, Flow: flow})[0]
			from := model.Room(modelsOf(*flow.Ceiling.(*ceiling).held.Load()), all, 1)
			clock := beginning.Add(time.Duration(i) * 3 * time.Second).UnixMicro()
			if a.Granted {
				require.LessOrEqual(t, from, clock)
				all = append(all, model.Turn{Slot: a.Grant.At, N: 1})
				continue
			}
			require.LessOrEqual(t, clock+a.Wait.Microseconds(), max(from, clock)+time.Hour.Microseconds()/64)
		}
		require.GreaterOrEqual(t, len(all), 1200)
		require.LessOrEqual(t, f.client.ZCard(t.Context(), f.logKey("a")).Val(), int64(132))
	})
}

// Whatever is lost of what a limiter knows, and whatever is paused, stored, given
// back or reset meanwhile: no turn comes where the queue or the ceiling of its flow
// has no room, nor in a pause of its flow.
func TestNoCeilingIsExceededWhateverHappens(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(redistest.Long(6, 60)) {
			rng := rand.New(rand.NewPCG(seed, 29))
			f, at := w.queue(t, quotas(t, []string{"10/1s", "1/50ms", "20/1s burst 5"}[rng.IntN(3)])...)
			texts := []string{"2/3s", "3/3s burst 1", "1/3s", "50/3s"}
			ctx, now, all := t.Context(), time.Duration(0), []model.Turn(nil)
			own, held, stored := map[string][]model.Turn{}, map[string][]engine.Answer{}, map[string]string{}
			paused, real := map[string]int64{}, time.Now()
			for step := range redistest.Long(200, 400) {
				if time.Since(real) > 20*time.Millisecond {
					break // what a limiter remembers ends on the real clock
				}
				real = time.Now()
				now += time.Duration(rng.IntN(150)) * time.Millisecond
				at(now)
				clock, id := beginning.Add(now).UnixMicro(), fmt.Sprint(rng.IntN(len(texts)))
				flow, text := flowUnder(t, f, id, texts[id[0]-'0']), texts[id[0]-'0']
				if stored[id] != "" {
					text = stored[id]
				}
				what := fmt.Sprintf("seed %d, step %d, flow %s of %s", seed, step, id, text)
				switch chance := rng.IntN(100); {
				case chance < 4:
					lost := [][]string{{f.key}, {f.logKey(id)}, {f.key, f.logKey(id)}}[rng.IntN(3)]
					require.NoError(t, w.rdb.Del(ctx, lost...).Err())
					stored[id], paused = "", map[string]int64{} // they are in the log, or of the queue
					require.NoError(t, f.SetCeiling(ctx, id, nil))
				case chance < 5:
					require.NoError(t, f.Reset(ctx))
					all, own, held, paused = nil, map[string][]model.Turn{}, map[string][]engine.Answer{}, map[string]int64{}
				case chance < 9:
					require.NoError(t, f.PauseFlow(ctx, id, time.Second))
					paused[id] = max(paused[id], clock+1_000_000)
				case chance < 14:
					stored[id] = texts[rng.IntN(len(texts))]
					require.NoError(t, f.SetCeiling(ctx, id, &quotas(t, stored[id])[0]))
				case chance < 30 && len(held[id]) > 0:
					i := rng.IntN(len(held[id]))
					g := held[id][i].Grant
					g.Unused = true
					require.NoError(t, f.GiveBack(ctx, []engine.Grant{g}))
					turn := model.Turn{Slot: int64(held[id][i].Wait), N: g.N}
					held[id] = slices.Delete(held[id], i, i+1)
					i, k := slices.Index(own[id], turn), slices.Index(all, turn)
					own[id], all = slices.Delete(own[id], i, i+1), slices.Delete(all, k, k+1)
				default:
					r := engine.Request{N: 1, MaxWait: time.Duration(rng.IntN(3000)) * time.Millisecond, Flow: flow}
					a := take(t, f, r, r)
					windows, err := windowsOf(quotas(t, text), f.guard)
					require.NoError(t, err)
					for _, a := range a {
						require.NoError(t, a.Err, what)
						if !a.Granted {
							continue
						}
						slot := clock + a.Wait.Microseconds()
						require.GreaterOrEqual(t, slot, paused[id], what)
						require.LessOrEqual(t, model.Room(modelsOf(windows), own[id], 1), slot+2, what)
						require.LessOrEqual(t, model.Room(modelsOf(f.windows), all, 1), slot+2, what)
						turn := model.Turn{Slot: slot, N: 1}
						own[id], all = append(own[id], turn), append(all, turn)
						a.Wait = time.Duration(slot)
						held[id] = append(held[id], a)
					}
				}
			}
		}
	})
}
