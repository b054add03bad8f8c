package fair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func (w world) unitQueue(t testing.TB, quota engine.Quota, units ...engine.Unit) (*fair, func(time.Duration)) {
	e, err := New(engine.Config{Client: w.rdb, Name: t.Name(), Quota: quota, Units: units})
	require.NoError(t, err)
	f := e.(*fair)
	at := w.clock(t, f)
	at(0)
	return f, at
}

// settles settles a turn that did not use so much.
func settles(t testing.TB, f *fair, g engine.Grant, calls int, unused engine.Amounts) {
	g.Settles, g.N, g.Amounts = true, calls, unused
	giveBack(t, f, g)
}

// tokensOf is a queue of 3 calls a second and 100 tokens a minute.
func (w world) tokensOf(t testing.TB) (*fair, func(time.Duration)) {
	return w.unitQueue(t, engine.Quota{Permits: 3, Per: time.Second},
		engine.Unit{Name: "tokens", Quotas: []engine.Quota{{Permits: 100, Per: time.Minute}}})
}

// joinsAs is another limiter of the queue, with what it is given besides its quota.
func (f *fair) joinsAs(t testing.TB, cfg engine.Config) *fair {
	cfg.Client, cfg.Name, cfg.Quota = f.client, t.Name(), f.quotas[0]
	e, err := New(cfg)
	require.NoError(t, err)
	other := e.(*fair)
	other.scripts = f.scripts
	return other
}

func (f *fair) joinsUnits(t testing.TB, tokens ...engine.Quota) *fair {
	return f.joinsAs(t, engine.Config{Units: []engine.Unit{{Name: "tokens", Quotas: tokens}}})
}

// unit is a unit with one quota.
func unit(t testing.TB, name, text string) []engine.Unit {
	return []engine.Unit{{Name: name, Quotas: quotas(t, text)}}
}

func amount(n int, amounts engine.Amounts) engine.Request {
	return engine.Request{N: n, Amounts: amounts, MaxWait: engine.Forever}
}

// A refusal writes nothing, in whichever unit it lacks room.
func TestARefusalOfAmountsWritesNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.tokensOf(t)
		take(t, f, amount(1, "tokens=60"))
		before := f.bytes(t)
		for _, r := range []engine.Request{{N: 1, Amounts: "tokens=41"}, {N: 3, Amounts: "tokens=1"}} {
			require.False(t, take(t, f, r)[0].Granted)
			require.Equal(t, before, f.bytes(t))
		}
	})
}

func TestUnitsThatAreLostCountAgain(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, lose := range map[string]func(f *fair){
			"both":  func(f *fair) { w.rdb.Del(t.Context(), f.key, f.unitsKey()) },
			"units": func(f *fair) { w.rdb.Del(t.Context(), f.unitsKey()) },
			"calls": func(f *fair) { w.rdb.Del(t.Context(), f.key) },
		} {
			f, at := w.tokensOf(t)
			_ = f.Reset(t.Context())
			f.memory = memory{}
			take(t, f, amount(1, "tokens=60"), amount(1, "tokens=60")) // the second after a minute
			at(100 * time.Millisecond)
			lose(f)
			a := take(t, f, amount(1, "tokens=41"))[0]
			require.GreaterOrEqual(t, a.Wait, 2*time.Minute-100*time.Millisecond, name)
			require.LessOrEqual(t, a.Wait, 2*time.Minute, name)
			// It is not counted twice.
			b := take(t, f, amount(1, "tokens=40"))[0]
			require.Equal(t, a.Wait, b.Wait, name)
			at(4 * time.Minute)
			require.Zero(t, take(t, f, amount(1, "tokens=100"))[0].Wait, name)
			at(0)
		}
	})
}

// What a replica lacks counts again, for each unit.
func TestUnitsThatAReplicaLacksCountAgain(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		other := f.joinsUnits(t, engine.Quota{Permits: 100, Per: time.Minute})
		take(t, f, amount(1, "tokens=10"))
		before := snap(t, f)
		take(t, f, amount(0, "tokens=80")) // lost, though no call is
		at(200 * time.Millisecond)
		before.put(t, f)
		promotes(t, f)
		require.Zero(t, take(t, other, amount(1, "tokens=5"))[0].Wait, "the other does not know")
		require.Equal(t, 5, status(t, f).Units["tokens"].Available)
		require.Equal(t, 5, status(t, f).Units["tokens"].Available, "once")
	})
}

// A limiter with other windows of a unit is held to its own, over all turns. One
// without the unit leaves it alone.
func TestUnitsOfOthers(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		narrow := f.joinsUnits(t, engine.Quota{Permits: 50, Per: time.Minute})
		points := f.joinsAs(t, engine.Config{Units: unit(t, "points", "7/1m")})
		take(t, f, amount(1, "tokens=40"))
		take(t, points, amount(1, "points=5"))
		require.Zero(t, take(t, narrow, amount(1, "tokens=10"))[0].Wait)
		at(time.Second)
		require.Equal(t, 59*time.Second, take(t, narrow, amount(1, "tokens=10"))[0].Wait)
		require.Equal(t, engine.UnitStatus{Available: 0, Queued: 0}, status(t, points).Units["points"], "the tail is ahead")
		at(time.Minute)
		require.Equal(t, engine.UnitStatus{Available: 7}, status(t, points).Units["points"])
		require.Equal(t, engine.UnitStatus{Available: 90}, status(t, f).Units["tokens"])
	})
}

func TestAPauseHoldsUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		plain := f.joins(t, engine.Quota{Permits: 3, Per: time.Second})
		take(t, f, amount(1, "tokens=100"))
		require.NoError(t, plain.Pause(t.Context(), 10*time.Minute))
		for _, key := range []string{f.key, f.unitsKey()} {
			require.Greater(t, w.rdb.PTTL(t.Context(), key).Val(), 10*w.scale*time.Minute, "it lives on")
		}
		at(9 * time.Minute)
		require.InDelta(t, 2*time.Minute, take(t, f, amount(1, "tokens=100"))[0].Wait, float64(time.Microsecond))
	})
}

// Whoever asks first under a narrower quota of a unit, and whatever it counts.
func TestANarrowerUnitSlowsHeldTurnsWhoeverHearsOfItFirst(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for who, first := range map[string]func(f *fair){
			"a turn of calls only":    func(f *fair) { queued(t, f, 1, 1) },
			"a look":                  func(f *fair) { require.NoError(t, f.Look(t.Context())) },
			"a limiter without units": func(f *fair) { queued(t, f.looksFor(t, quotas(t, "60/1m")...), 1, 1) },
			"one that stores it": func(f *fair) {
				other := f.looksFor(t, quotas(t, "60/1m")...)
				known, err := other.storedQuotaSet("60/1m; tokens 50/1m burst 50")
				require.NoError(t, err)
				other.known.Store(known)
				require.NoError(t, other.SetQuotas(t.Context(), quotas(t, "50/1m")))
			},
			"nobody": func(*fair) {},
		} {
			f, _ := w.queue(t, quotas(t, "60/1m")...)
			f = f.looksFor(t, quotas(t, "60/1m")...)
			w.rdb.Set(t.Context(), f.key+":quota", "60/1m; tokens 100/1m burst 50", 0)
			held := take(t, f, amount(1, "tokens=50"), amount(1, "tokens=50"), amount(1, "tokens=50"))[2].Grant
			w.rdb.Set(t.Context(), f.key+":quota", "60/1m; tokens 50/1m burst 50", 0)
			first(f)
			news := hears(f)
			take(t, f, amount(1, "tokens=1"))
			require.NoError(t, f.Look(t.Context()))
			require.InDelta(t, 2*time.Minute, last(t, news).Until(held.At), float64(time.Millisecond), who)
			require.Contains(t, w.rdb.Get(t.Context(), f.quotaKey()).Val(), "tokens 50/1m")
		}
	})
}

// As many units as there may be, of the longest names, and more changes than the
// notes have room for.
func TestManyQuotasOfManyUnitsLeaveAStateThatCanBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		f = f.looksFor(t, engine.Quota{Permits: 3, Per: time.Second})
		for change := range 12 {
			text, amounts := fmt.Sprintf("%d/1s burst 1", 20-change), []string{}
			for i := range mostUnits {
				name := strings.Repeat("u", 31) + string(rune('a'+i))
				text += fmt.Sprintf("; %s %d/1m 1000000000/8760h", name, 20000000-change)
				amounts = append(amounts, name+"=1")
			}
			require.NoError(t, w.rdb.Set(t.Context(), f.quotaKey(), text, 0).Err())
			take(t, f, amount(1, engine.Amounts(strings.Join(amounts, " "))))
			queued(t, f, 2, 1)
			inspected(t, f)
		}
	})
}

// Stored quotas have units as well. SetQuotas keeps these.
func TestStoredQuotasHaveUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		stored := f.looksFor(t, engine.Quota{Permits: 3, Per: time.Second})
		w.rdb.Set(t.Context(), f.key+":quota", "60/1m; tokens 100/1m burst 50", 0)
		a := take(t, stored, amount(1, "tokens=50"), amount(1, "tokens=50"), amount(1, "tokens=51"))
		require.Equal(t, []time.Duration{0, 30 * time.Second}, []time.Duration{a[0].Wait, a[1].Wait})
		require.ErrorIs(t, a[2].Err, engine.ErrExceedsQuota)
		require.ErrorIs(t, take(t, stored, amount(1, "points=1"))[0].Err, engine.ErrUnknownUnit)
		require.NoError(t, stored.SetQuotas(t.Context(), []engine.Quota{{Permits: 61, Per: time.Minute}}))
		require.Equal(t, "61/1m; tokens 100/1m burst 50", w.rdb.Get(t.Context(), f.key+":quota").Val())

		// Half the tokens: turns that are held come twice as late.
		w.rdb.Set(t.Context(), f.key+":quota", "61/1m; tokens 50/1m burst 50", 0)
		require.InDelta(t, time.Minute, status(t, stored).Delay, float64(10*time.Microsecond))
		s := inspected(t, f)
		tokens := []engine.Quota{{Permits: 50, Per: time.Minute, Burst: 50}}
		require.Equal(t, []engine.Unit{{Name: "tokens", Quotas: tokens}}, s.UnitQuotas)

		// Units that the text does not name stay as they were given.
		given, err := New(engine.Config{
			Client: w.rdb, Name: f.key[len(defaultPrefix)+1 : len(f.key)-1], Quota: f.quotas[0], Stored: true,
			Units: []engine.Unit{{Name: "points", Quotas: []engine.Quota{{Permits: 7, Per: time.Minute}}}},
		})
		require.NoError(t, err)
		require.NoError(t, given.(*fair).Look(t.Context()))
		require.Equal(t, []string{"points", "tokens"}, given.(*fair).Units())
	})
}

// Many settlements at once are as good as one after the other, debts first.
func TestManyAreSettledAtOnce(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		var grants []engine.Grant
		for i, a := range take(t, f, amount(1, "tokens=30"), amount(1, "tokens=30"), amount(1, "tokens=40")) {
			g := a.Grant
			g.Settles, g.N, g.Amounts = true, 0, []engine.Amounts{"tokens=10", "tokens=-250", "tokens=40"}[i]
			grants = append(grants, g)
		}
		at(time.Second)
		giveBack(t, f, grants...)
		require.Equal(t, engine.UnitStatus{Queued: 200}, status(t, f).Units["tokens"], "100 after a minute and 100 after two")
		require.Equal(t, 2*time.Minute-time.Second, status(t, f).Delay)
	})
}

// unitsOf is another limiter of the queue with as many tokens a minute, callsOf
// one that counts calls only.
func (f *fair) unitsOf(t testing.TB) *fair {
	return f.joinsUnits(t, engine.Quota{Permits: 100, Per: time.Minute})
}

func (f *fair) callsOf(t testing.TB, quotas ...engine.Quota) *fair {
	if len(quotas) == 0 {
		quotas = f.quotas
	}
	return f.joins(t, quotas...)
}

// flushed empties the server of the queue.
func flushed(t testing.TB, f *fair) {
	require.NoError(t, f.client.Del(t.Context(), f.key, f.unitsKey()).Err())
}

func waits(t testing.TB, f *fair, n int, amounts engine.Amounts) time.Duration {
	t.Helper()
	a := take(t, f, amount(n, amounts))[0]
	require.True(t, a.Granted)
	return a.Wait
}

// What was lost of a unit counts for as long as a window of that unit, however
// short those of calls are.
func TestALostUnitCountsForAsLongAsItsOwnWindow(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		require.Zero(t, waits(t, f, 1, "tokens=100"))
		flushed(t, f)
		at(5 * time.Second)
		require.Equal(t, 55*time.Second, waits(t, f, 1, "tokens=1"))
	})
}

// A limiter that knows less asks first. The others' turns count as well, also
// after a second loss.
func TestWhatEachLimiterKnowsOfALostUnitCounts(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for losses := 1; losses <= 2; losses++ {
			f, at := w.tokensOf(t)
			require.NoError(t, f.Reset(t.Context()))
			knows, calls, stranger := f.unitsOf(t), f.callsOf(t), f.unitsOf(t)
			waits(t, calls, 1, "")
			waits(t, f, 1, "tokens=10")
			at(10 * time.Second)
			require.Zero(t, waits(t, knows, 1, "tokens=80"))
			for range losses {
				flushed(t, f)
				waits(t, calls, 1, "")
				waits(t, stranger, 1, "tokens=1")
				waits(t, f, 1, "")
			}
			require.GreaterOrEqual(t, waits(t, knows, 1, "tokens=30"), time.Minute, losses)
			at(0)
		}
	})
}

// A pause restores no units. Who pauses after a loss still knows what it knew of
// them, whatever others are granted meanwhile.
func TestAPauseDoesNotForgetUnitsThatWereLost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		other := f.unitsOf(t)
		waits(t, other, 1, "tokens=10")
		before := snap(t, f)
		waits(t, f, 1, "tokens=50")
		at(200 * time.Millisecond)
		before.put(t, f)
		promotes(t, f)
		pause(t, f, time.Millisecond)
		at(time.Second)
		require.Zero(t, waits(t, other, 1, "tokens=50"), "it does not know")
		require.Greater(t, waits(t, f, 1, "tokens=1"), 50*time.Second, "which makes 111")
	})
}

// A queue that takes another name, as turns were lost, keeps its units.
func TestUnitsKeepTheNameOfTheirQueue(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		early, late := f.callsOf(t), f.callsOf(t)
		waits(t, early, 1, "")
		at(500 * time.Millisecond)
		waits(t, late, 1, "")
		flushed(t, f)
		waits(t, f.callsOf(t), 1, "") // a stranger begins another queue
		waits(t, early, 1, "")
		ahead := waits(t, f, 1, "tokens=100")
		before := f.memory.now().generation()
		waits(t, late, 1, "")
		require.NotEqual(t, before, late.memory.now().generation())
		require.GreaterOrEqual(t, waits(t, f.unitsOf(t), 1, "tokens=1"), ahead+time.Minute)
	})
}

// Who counts calls only restores a pause for the units as well.
func TestUnitsLiveForAsLongAsAPauseThatIsRestored(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		calls := f.callsOf(t)
		waits(t, f, 1, "tokens=100")
		before := snap(t, f)
		pause(t, calls, time.Hour)
		require.NoError(t, w.rdb.PExpire(t.Context(), f.unitsKey(), time.Minute*w.scale).Err())
		before.restore(t, f)
		at(200 * time.Millisecond)
		waits(t, calls, 1, "")
		require.Greater(t, w.rdb.PTTL(t.Context(), f.unitsKey()).Val(), 59*time.Minute*w.scale)
	})
}

// The tail of a unit is that of the queue, whoever gives turns back or has other
// windows.
func TestTheTailOfAUnitStays(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, disturb := range map[string]func(f, calls *fair){
			"calls go back": func(_, calls *fair) {
				giveBack(t, calls, queued(t, calls, 2, 1)...)
			},
			"points go back": func(f, _ *fair) {
				points := f.joinsAs(t, engine.Config{Units: unit(t, "points", "7/1m")})
				giveBack(t, points, take(t, points, amount(0, "points=5"))[0].Grant)
			},
			"rows are cut": func(f, _ *fair) {
				other := f.callsOf(t, engine.Quota{Permits: 2, Per: 3 * time.Second})
				require.False(t, take(t, other, engine.Request{N: 1, MaxWait: time.Second})[0].Granted)
			},
		} {
			f, _ := w.unitQueue(t, engine.Quota{Permits: 1, Per: time.Second},
				engine.Unit{Name: "tokens", Quotas: []engine.Quota{{Permits: 100, Per: time.Minute}}})
			require.NoError(t, f.Reset(t.Context()))
			calls := f.callsOf(t)
			queued(t, calls, 5, 1) // a row
			waits(t, f, 0, "tokens=100")
			tail := waits(t, f, 0, "tokens=100")
			disturb(f, calls)
			require.GreaterOrEqual(t, waits(t, calls, 1, ""), tail, name)
		}
	})
}

// As many units and windows as there can be fit the key.
func TestSevenUnitsOfEightWindows(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		var units []engine.Unit
		for i := range mostUnits {
			u := engine.Unit{Name: fmt.Sprintf("a-unit-that-has-a-long-name-%d", i)}
			for w := range mostWindows {
				u.Quotas = append(u.Quotas, engine.Quota{Permits: 900_000_000 + w, Per: time.Duration(w+1) * 1000 * time.Hour})
			}
			units = append(units, u)
		}
		f, at := w.unitQueue(t, engine.Quota{Permits: 1, Per: time.Second}, units...)
		for i := range 3 {
			at(time.Duration(i) * time.Second)
			require.Zero(t, waits(t, f, 1, engine.Amounts(units[6].Name+"=7")))
		}
		available := status(t, f).Units[units[6].Name].Available
		require.Equal(t, 900_000_000-21, available)
	})
}

// A look begins the queue anew, and restores no units.
func TestALookDoesNotForgetUnitsThatWereLost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		require.Zero(t, waits(t, f, 1, "tokens=100"))
		flushed(t, f)
		at(5 * time.Second)
		require.NoError(t, f.Look(t.Context()))
		waits(t, f.callsOf(t), 3, "")
		require.NoError(t, f.Look(t.Context()))
		require.GreaterOrEqual(t, waits(t, f, 1, "tokens=1"), 55*time.Second)
	})
}

// A status restores what a limiter with other windows of a unit knows of it.
func TestAStatusUnderOtherWindowsRestoresUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		other := f.joinsUnits(t, quotas(t, "100/1m 7000/2h")...)
		for i := range 3 {
			at(time.Duration(i) * time.Second)
			waits(t, f, 1, "tokens=1")
		}
		before := snap(t, f)
		waits(t, other, 0, "tokens=50")
		before.put(t, f)
		at(3 * time.Second)
		require.Equal(t, 47, status(t, other).Units["tokens"].Available)
		require.Equal(t, 47, status(t, f).Units["tokens"].Available)
	})
}

// A limiter with other windows of calls settles what it owes.
func TestDebtsUnderOtherWindowsOfCalls(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		other := f.joinsAs(t, engine.Config{Extra: quotas(t, "5/2s 70/1m"), Units: unit(t, "tokens", "100/1m")})
		g := take(t, other, amount(1, "tokens=60"))[0].Grant
		waits(t, f, 1, "tokens=1")
		at(time.Second)
		settles(t, other, g, -2, "tokens=-60")
		require.Equal(t, engine.UnitStatus{Queued: 21}, status(t, f).Units["tokens"])
	})
}

// All that is known to be missing counts, also for limiters with longer windows.
func TestALostUnitCountsForLongerWindowsOfOthers(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		other := f.joinsUnits(t, quotas(t, "100/1m 250/1h")...)
		waits(t, other, 1, "tokens=1")
		waits(t, f, 1, "tokens=9")
		before := snap(t, f)
		waits(t, f, 1, "tokens=90")
		waits(t, f, 1, "tokens=100")
		at(time.Second)
		before.restore(t, f)
		waits(t, f, 1, "")
		at(3 * time.Minute)
		require.Equal(t, 50, status(t, other).Units["tokens"].Available)
	})
}

// A limiter of calls alone can give back what has none.
func TestATurnWithoutCallsGoesBack(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.tokensOf(t)
		calls := f.callsOf(t)
		waits(t, f, 0, "tokens=100")
		g := take(t, f, amount(0, "tokens=100"))[0].Grant
		giveBack(t, f, g)
		giveBack(t, calls, g)
		require.Equal(t, engine.UnitStatus{}, status(t, f).Units["tokens"])
	})
}

// A refund cancels the newest debts that lie ahead, forty of them at most, also
// once the unit has moved to make room for another.
func TestARefundCancelsTheFortyNewestDebts(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, moves := range []bool{false, true} {
			f, at := w.unitQueue(t, engine.Quota{Permits: 3, Per: time.Second}, unit(t, "tokens", "1/1s")...)
			require.NoError(t, f.Reset(t.Context()))
			at(0)
			turns := take(t, f, amount(1, ""), amount(1, ""), amount(1, ""))
			at(time.Second)
			settles(t, f, turns[0].Grant, 0, "tokens=-25")
			settles(t, f, turns[1].Grant, 0, "tokens=-25")
			require.Equal(t, 49, status(t, f).Units["tokens"].Queued, "one is due at once")
			if moves {
				take(t, f.joinsAs(t, engine.Config{Units: unit(t, "points", "7/1m")}), amount(0, "points=1"))
			}
			settles(t, f, turns[2].Grant, 0, "tokens=60")
			require.Equal(t, 9, status(t, f).Units["tokens"].Queued)
			if !moves { // else a turn of points is behind them
				require.Equal(t, 9*time.Second, status(t, f).Delay, "the oldest are left")
			}
		}
	})
}
