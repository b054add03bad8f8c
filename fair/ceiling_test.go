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

// asks asks for a turn of a flow, however late, that takes calls and amounts.
func asks(t testing.TB, f *fair, flow *engine.Flow, n int, amounts engine.Amounts) engine.Answer {
	t.Helper()
	cost := f.CostOf(n, amounts)
	return take(t, f, engine.Request{N: n, Amounts: amounts, Cost: cost, MaxWait: engine.Forever, Flow: flow})[0]
}

// asksFirst asks at once, and returns what reads the answer as if it came now.
func asksFirst(t testing.TB, f *fair, requests []engine.Request) (answer func()) {
	args, logs, _ := f.takeArgs(f.held(), requests)
	late, err := f.askUnder(t.Context(), f.scripts.share, f.held(), args, logs...)
	require.NoError(t, err)
	return func() {
		late.arrived = time.Now()
		answers, err := f.read(late, f.held(), requests)
		require.NoError(t, err)
		require.True(t, answers[0].Granted)
	}
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

// isTold requires that Inspect tells of a ceiling what the turns of its flow
// mean.
func isTold(t *testing.T, told Ceiling, windows []window, turns []model.Turn, clock int64) {
	t.Helper()
	require.Equal(t, max(0, model.Room(modelsOf(windows), turns, 1)-clock), told.Next.Microseconds())
	for i, own := range windows {
		held := 0
		for _, turn := range turns {
			if turn.Slot <= clock && turn.Slot+own.Length > clock {
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
		require.Greater(t, w.ttl(t, f.key), time.Minute+9*time.Second, "it outlives what limiters know of its ceilings")
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

		require.NoError(t, f.PauseFlow(t.Context(), "a", time.Minute))
		require.NoError(t, f.PauseFlow(t.Context(), "a", time.Second))
		paused := ask()
		require.InDelta(t, time.Minute, paused.Paused, float64(time.Microsecond), "the longer one counts")
		require.Equal(t, paused.Wait, paused.Paused, "it is the pause that refuses")
		require.NoError(t, f.Reset(t.Context()))
		require.NoError(t, w.rdb.Del(t.Context(), f.key, f.logKey("a")).Err())
		for range 3 {
			require.True(t, ask().Granted, "a reset ends the pause of a flow, and is not forgotten")
		}
	})
}

func TestAFlowIsPausedUntilTheEndWhoeverLeaves(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		set(t, f, "1/1s")
		held := queued(t, f, 10, 1)
		set(t, f, "2/2m")
		require.NoError(t, f.PauseFlow(t.Context(), "a", 30*time.Second))
		giveBack(t, f, held...)
		flow := flowUnder(t, f, "a", "")
		for now := time.Duration(0); now < 30*time.Second; now += time.Second {
			at(now)
			require.False(t, take(t, f, engine.Request{N: 1, Flow: flow})[0].Granted, now)
		}
	})
}

func TestAFlowStaysPausedWhereALostQueueIsCounted(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, quotas(t, "2/1s")...)
		stranger, c := a.joins(t, a.quotas...), a.joins(t, a.quotas...)
		moves(t, a)
		queued(t, c, 3, 1)
		queued(t, a, 6, 1)
		require.NoError(t, a.client.Del(t.Context(), a.key).Err())
		at(100 * time.Millisecond)
		require.NoError(t, stranger.PauseFlow(t.Context(), "f", time.Minute))
		asks := func() {
			answer := take(t, stranger, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flowUnder(t, stranger, "f", "")})[0]
			require.False(t, answer.Granted && answer.Wait < 50*time.Second, "in the pause of the flow")
		}
		asks()
		at(200 * time.Millisecond)
		queued(t, c, 1, 1)
		at(300 * time.Millisecond)
		queued(t, a, 1, 1)
		asks()
	})
}

// In a pause, real time passes and the queue's does not.
func TestWhatACeilingCountedIsRememberedInAPause(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, everything := range []bool{true, false} {
			f, at := w.queue(t, quotas(t, "5/1s burst 1")...)
			flow := flowUnder(t, f, "a", "2/1s")
			ask := func() engine.Answer {
				return take(t, f, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flow})[0]
			}
			ask()
			ask()
			at(100 * time.Millisecond)
			pause(t, f, 10*time.Second)
			at(2 * time.Second)
			f.memory.news.Arrived = f.memory.news.Arrived.Add(-1900 * time.Millisecond)
			known := f.places.known["a"]
			known.until = time.Now()
			f.places.known["a"] = known
			require.NoError(t, f.client.Del(t.Context(), f.logKey("a")).Err())
			if everything {
				require.NoError(t, f.client.Del(t.Context(), f.key).Err())
			}
			require.NoError(t, f.Look(t.Context()))
			next := ask() // the queue that was lost is as full as the ceiling
			require.Equal(t, everything, next.Granted, "two are ahead or went less than a second ago")
			require.False(t, next.Granted && next.Wait < 9199*time.Millisecond, "nor does it come sooner")
		}
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

// The queue has ended with all that the ceiling of then counted.
func TestALongerCeilingCountsNothingThatWasOver(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, quotas(t, "10/1s")...)
		other := a.joins(t, a.quotas...)
		ask := func(f *fair) engine.Answer {
			return take(t, f, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flowUnder(t, f, "a", "")})[0]
		}
		require.NoError(t, a.SetCeiling(t.Context(), "a", &quotas(t, "5/1s")[0]))
		require.True(t, ask(a).Granted)
		at(15 * time.Second)
		require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
		require.NoError(t, a.SetCeiling(t.Context(), "a", &quotas(t, "100/1h")[0]))
		require.True(t, ask(other).Granted)
	})
}

// A ceiling that has room just where the queue has is no hindrance. The log of
// one that is stored does not expire.
func TestACeilingHoldsUpNobodyForWhomItHasRoom(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "1/1s")...)
		flow := flowUnder(t, f, "a", "1/1s")
		require.NoError(t, f.SetCeiling(t.Context(), "a", &f.quotas[0]))
		for i := range 3 {
			a := take(t, f, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flow})[0]
			require.True(t, a.Granted)
			require.Equal(t, time.Duration(i)*time.Second, a.Wait)
		}
		require.EqualValues(t, -1, w.rdb.TTL(t.Context(), f.logKey("a")).Val())
	})
}

// Turns of before were not counted for it.
func TestWhatWasGrantedWithoutACeilingFreesNothingOfIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "1/1s")...)
		flow := flowUnder(t, f, "a", "")
		ask := func() engine.Answer {
			return take(t, f, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flow})[0]
		}
		ask()
		before := ask() // at 1 s
		ceiling := quotas(t, "2/1m")[0]
		require.NoError(t, f.SetCeiling(t.Context(), "a", &ceiling))
		require.True(t, ask().Granted) // at 2 s
		require.True(t, ask().Granted)
		giveBack(t, f, before.Grant)
		require.False(t, ask().Granted, "the ceiling is full")
	})
}

// The queue alone is lost, and who knows of it asks. Else it would end before
// the ceiling has forgotten, and the next one would go by none of it.
func TestAQueueThatIsRestoredLivesForAsLongAsTheCeilingCounts(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		ask := func() engine.Answer {
			return take(t, f, engine.Request{N: 1, MaxWait: 0, Flow: flowUnder(t, f, "a", "3/1m")})[0]
		}
		for range 3 {
			require.True(t, ask().Granted)
		}
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(100 * time.Millisecond)
		require.False(t, ask().Granted)
		require.Greater(t, w.ttl(t, f.key), time.Minute)
	})
}

// All is lost, and a stranger begins another queue.
func TestALostCeilingCountsAsFullOnce(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		stranger := f.joins(t, f.quotas...)
		flow := flowUnder(t, f, "a", "3/1m")
		for range 3 {
			require.True(t, take(t, f, engine.Request{N: 1, Flow: flow})[0].Granted)
		}
		require.NoError(t, w.rdb.Del(t.Context(), f.key, f.logKey("a")).Err())
		at(5 * time.Second)
		queued(t, stranger, 1, 1)
		for now := 10 * time.Second; now < time.Minute; now += 10 * time.Second {
			at(now)
			require.False(t, take(t, f, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flow})[0].Granted)
			require.LessOrEqual(t, now+ceilings(t, f, "a")[0].Next, 70*time.Second, now)
		}
	})
}

// The limiter has heard of the reset, and was granted all that the ceiling
// counts since.
func TestALostCeilingCountsThoughAResetIsRemembered(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, resets := range []bool{false, true} {
			f, at := w.queue(t, quotas(t, "10/1s")...)
			other := f.joins(t, f.quotas...)
			flow := flowUnder(t, f, "a", "3/1m")
			ask := func() engine.Answer { return take(t, f, engine.Request{N: 1, Flow: flow})[0] }
			queued(t, f, 1, 1)
			queued(t, other, 1, 1)
			if resets {
				require.NoError(t, other.Reset(t.Context()))
				require.NoError(t, f.Look(t.Context()))
			}
			at(time.Second)
			for range 3 {
				require.True(t, ask().Granted)
			}
			require.NoError(t, w.rdb.Del(t.Context(), f.key, f.logKey("a")).Err())
			at(4 * time.Second)
			queued(t, other, 1, 1)
			at(6 * time.Second)
			require.False(t, ask().Granted, "reset: %v", resets)
		}
	})
}

// One question gives a turn of one flow back and settles one of another.
func TestATurnGoesBackToTheCeilingOfItsOwnFlow(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		calls, at := w.queue(t, quotas(t, "1/1s")...)
		f := calls.joinsAs(t, calls.quotas, engine.Unit{Name: "tokens", Quotas: quotas(t, "1000/1m")})
		a, b := flowUnder(t, f, "a", "1/1m"), flowUnder(t, f, "b", "2/1m")
		ask := func(flow *engine.Flow) engine.Answer { return asks(t, f, flow, 1, "tokens=10") }
		went, goesBack := ask(b).Grant, ask(a).Grant
		require.True(t, ask(b).Granted)
		at(10 * time.Millisecond)
		went.Settles, went.N, went.Amounts = true, 0, "tokens=5"
		giveBack(t, f, goesBack, went)
		require.False(t, ask(b).Granted, "its ceiling is full")
		require.True(t, ask(a).Granted)
	})
}

// A turn without calls leaves nothing in the log, before or after it is given back.
func TestATurnWithoutCallsCountsForNoCeiling(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		calls, _ := w.queue(t, quotas(t, "10/1s")...)
		f := calls.joinsAs(t, calls.quotas, engine.Unit{Name: "tokens", Quotas: quotas(t, "10/1s")})
		flow := flowUnder(t, f, "a", "1/1m")
		ask := func(n int, amounts engine.Amounts) engine.Answer { return asks(t, f, flow, n, amounts) }
		require.True(t, ask(0, "tokens=10").Granted)
		later := ask(0, "tokens=10") // at 1 s
		require.True(t, later.Granted)
		giveBack(t, f, later.Grant)
		call := ask(1, "")
		require.True(t, call.Granted)
		require.Less(t, call.Grant.At, later.Grant.At)
		call.Grant.Unused = true
		giveBack(t, f, call.Grant)
		require.True(t, ask(1, "").Granted, "the ceiling is empty")
	})
}

// Beside them another turn used so many calls that one run does not book them all.
func TestCallsThatWereNotUsedComeBackToTheCeiling(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, debt := range []int{0, 30, 300} {
			calls, at := w.queue(t, quotas(t, "3/1s")...)
			f := calls.joinsAs(t, calls.quotas, engine.Unit{Name: "tokens", Quotas: quotas(t, "1000/1m")})
			flow := flowUnder(t, f, "a", "1/1h")
			ask := func(flow *engine.Flow) engine.Answer { return asks(t, f, flow, 1, "tokens=10") }
			unused, owes := ask(flow).Grant, ask(nil).Grant
			at(400 * time.Millisecond)
			unused.Settles, unused.N, unused.Amounts = true, 1, ""
			owes.Settles, owes.N, owes.Amounts = true, -debt, ""
			giveBack(t, f, unused, owes)
			require.True(t, ask(flow).Granted, "debt %d", debt)
		}
	})
}

// Limiters of one flow have ceilings of their own, or a stored one is forgotten.
func TestTheLogOfAFlowLivesForTheLongestThatCounts(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		long, at := w.queue(t, quotas(t, "10/1s")...)
		short := long.joins(t, long.quotas...)
		require.True(t, take(t, long, engine.Request{N: 1, Flow: flowUnder(t, long, "a", "4/24h")})[0].Granted)
		at(time.Second)
		require.True(t, take(t, short, engine.Request{N: 1, Flow: flowUnder(t, short, "a", "2/1s")})[0].Granted)
		require.Greater(t, w.ttl(t, long.logKey("a")), 24*time.Hour)

		const pause = 365 * 24 * time.Hour
		require.NoError(t, long.PauseFlow(t.Context(), "a", pause))
		require.NoError(t, long.SetCeiling(t.Context(), "a", nil))
		require.Greater(t, w.rdb.TTL(t.Context(), long.logKey("a")).Val(), pause)
	})
}

// Its Burst implies its own quota, but not for turns of before.
func TestTurnsOfAnotherCeilingCountForTheWholeQuota(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		flow := flowUnder(t, f, "a", "5/1m")
		ask := func() engine.Answer { return take(t, f, engine.Request{N: 1, Flow: flow})[0] }
		for range 3 {
			require.True(t, ask().Granted)
		}
		require.NoError(t, f.SetCeiling(t.Context(), "a", &quotas(t, "4/7s burst 2")[0]))
		at(4 * time.Second)
		require.True(t, ask().Granted)
		require.False(t, ask().Granted, "four went in the last seven seconds")
	})
}

// The log of a flow is evicted once nothing of it counts, and begins anew.
func TestATurnFreesNothingInALogThatBeganLater(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, comesBack := range []bool{false, true} {
			f, at := w.queue(t, quotas(t, "10/1s")...)
			joins := func() *fair { return f.joins(t, f.quotas...) } // it has not heard of the log
			ask := func(f *fair) engine.Answer {
				return take(t, f, engine.Request{N: 1, Flow: flowUnder(t, f, "a", "1/1s")})[0]
			}
			old := ask(f).Grant
			require.NoError(t, w.rdb.Del(t.Context(), f.logKey("a")).Err())
			at(1200 * time.Millisecond)
			f = joins()
			if comesBack {
				g := ask(f).Grant
				g.Unused = true
				giveBack(t, f, g)
			}
			require.True(t, ask(f).Granted)
			old.Unused = true
			giveBack(t, f, old)
			require.False(t, ask(f).Granted, "one went in this second")
		}
	})
}

// A turn of tokens keeps neither the queue nor what a limiter knows of the ceiling.
func TestNobodyTakesACeilingForLostThatCountedNoCalls(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		calls, at := w.queue(t, quotas(t, "10/1s")...)
		f := calls.joinsAs(t, calls.quotas, engine.Unit{Name: "tokens", Quotas: quotas(t, "10/1s")})
		ask := func(n int, amounts engine.Amounts) engine.Answer {
			r := engine.Request{N: n, Amounts: amounts, Flow: flowUnder(t, f, "a", "5/1h")}
			r.Cost = f.CostOf(r.N, r.Amounts)
			return take(t, f, r)[0]
		}
		require.True(t, ask(0, "tokens=10").Granted)
		require.Less(t, w.ttl(t, f.key), time.Minute)
		require.NoError(t, w.rdb.Del(t.Context(), f.key, f.unitsKey()).Err()) // they end
		at(time.Minute)
		require.True(t, ask(1, "").Granted)
	})
}

// A ceiling counts calls.
func TestATurnWithoutCallsWaitsForNoCeiling(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "10/1s")...)
		f = f.joinsAs(t, f.quotas, engine.Unit{Name: "tokens", Quotas: quotas(t, "100/1s")})
		ask := func(n int, under string) engine.Answer {
			return take(t, f, engine.Request{N: n, Amounts: "tokens=1", Flow: flowUnder(t, f, "a", under)})[0]
		}
		require.True(t, ask(5, "5/1h").Granted)
		require.False(t, ask(1, "4/1h").Granted)
		require.True(t, ask(0, "4/1h").Granted)
	})
}

// Its answer comes after that of the reset.
func TestNobodyTakesACeilingForLostThatWasReset(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "10/1s")...)
		requests := []engine.Request{{N: 1, Flow: flowUnder(t, f, "a", "1/1h")}}
		late := asksFirst(t, f, requests)
		time.Sleep(time.Millisecond) // clocks have ticks
		require.NoError(t, f.Reset(t.Context()))
		late()
		require.True(t, take(t, f, requests...)[0].Granted)
	})
}

// It was granted nothing that counts in the queue of since, which ends.
func TestWhatACeilingCountedBeforeAResetIsNotMissed(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		ask := func(ceiling string) engine.Answer {
			return take(t, f, engine.Request{N: 1, Flow: flowUnder(t, f, "a", ceiling)})[0]
		}
		require.True(t, ask("1/1h").Granted)
		require.NoError(t, f.Reset(t.Context()))
		require.True(t, ask("1/1s").Granted)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err()) // it ends
		place, news := f.places.known["a"], &f.memory.news
		place.until = place.until.Add(-30 * time.Second)
		f.places.known["a"], news.Arrived = place, news.Arrived.Add(-30*time.Second)
		at(30 * time.Second)
		require.True(t, ask("1/1h").Granted)
	})
}

// An answer overtakes the one before it. Then an older copy of the log takes over.
func TestACeilingIsRememberedByTheNewestAnswer(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		one := []engine.Request{{N: 1, Flow: flowUnder(t, f, "a", "2/1m")}}
		late := asksFirst(t, f, one)
		at(time.Second)
		require.True(t, take(t, f, one...)[0].Granted)
		late()
		require.NoError(t, w.rdb.ZRemRangeByRank(t.Context(), f.logKey("a"), -1, -1).Err())
		require.False(t, take(t, f, one...)[0].Granted, "two went in this minute")
	})
}
