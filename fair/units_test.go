package fair

import (
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

func TestATurnTakesSeveralUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.unitQueue(t, engine.Quota{Permits: 3, Per: time.Second},
			engine.Unit{Name: "tokens", Quotas: []engine.Quota{{Permits: 100, Per: time.Minute}}})
		ask := func(n int, amounts engine.Amounts) engine.Request {
			return engine.Request{N: n, Amounts: amounts, MaxWait: engine.Forever}
		}
		answers := take(t, f, ask(1, "tokens=60"), ask(1, "tokens=60"), ask(1, ""), ask(1, "tokens=40"))
		var waits []time.Duration
		for _, a := range answers {
			require.True(t, a.Granted)
			waits = append(waits, a.Wait)
		}
		require.Equal(t, []time.Duration{0, time.Minute, time.Minute, time.Minute}, waits)
		status, err := f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]engine.UnitStatus{"tokens": {Available: 0, Queued: 100}}, status.Units)
		require.Equal(t, 3, status.Queued)
		at(time.Second)
		// The last two go back: the second stays.
		require.NoError(t, f.GiveBack(t.Context(), []engine.Grant{answers[3].Grant, answers[2].Grant}))
		// The first used 10 only.
		settles(t, f, answers[0].Grant, 0, "tokens=50")
		answers = append(answers, take(t, f, ask(1, "tokens=30"))...)
		require.Equal(t, 59*time.Second, answers[4].Wait)
		// It used 25 more.
		at(time.Minute)
		settles(t, f, answers[1].Grant, 0, "tokens=-25")
		status, err = f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]engine.UnitStatus{"tokens": {Queued: 15}}, status.Units)
		require.Equal(t, time.Minute, status.Delay)
	})
}

// tokensOf is a queue of 3 calls a second and 100 tokens a minute.
func (w world) tokensOf(t testing.TB) (*fair, func(time.Duration)) {
	return w.unitQueue(t, engine.Quota{Permits: 3, Per: time.Second},
		engine.Unit{Name: "tokens", Quotas: []engine.Quota{{Permits: 100, Per: time.Minute}}})
}

func (f *fair) joinsUnits(t testing.TB, quotas ...engine.Quota) *fair {
	units := []engine.Unit{{Name: "tokens", Quotas: quotas}}
	e, err := New(engine.Config{Client: f.client, Name: t.Name(), Quota: f.quotas[0], Units: units})
	require.NoError(t, err)
	other := e.(*fair)
	other.scripts = f.scripts
	return other
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
		calls, units := w.rdb.Dump(t.Context(), f.key).Val(), w.rdb.Dump(t.Context(), f.unitsKey()).Val()
		take(t, f, amount(0, "tokens=80")) // lost, though no call is
		at(200 * time.Millisecond)
		for key, state := range map[string]string{f.key: calls, f.unitsKey(): units} {
			require.NoError(t, w.rdb.RestoreReplace(t.Context(), key, time.Hour, state).Err())
		}
		promotes(t, f)
		require.Zero(t, take(t, other, amount(1, "tokens=5"))[0].Wait, "the other does not know")
		status, err := f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, status.Units["tokens"].Available)
		status, err = f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, status.Units["tokens"].Available, "once")
	})
}

func TestAResetForgetsUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.tokensOf(t)
		other := f.joinsUnits(t, engine.Quota{Permits: 100, Per: time.Minute})
		take(t, f, amount(1, "tokens=100"), amount(1, "tokens=100"))
		take(t, other, amount(1, "tokens=100"))
		require.NoError(t, other.Reset(t.Context()))
		require.Zero(t, take(t, f, amount(1, "tokens=50"))[0].Wait)
		require.Zero(t, take(t, other, amount(1, "tokens=50"))[0].Wait)
	})
}

// A limiter with other windows of a unit is held to its own, over all turns. One
// without the unit leaves it alone.
func TestUnitsOfOthers(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		narrow := f.joinsUnits(t, engine.Quota{Permits: 50, Per: time.Minute})
		e, err := New(engine.Config{Client: f.client, Name: t.Name(), Quota: f.quotas[0], Units: []engine.Unit{
			{Name: "points", Quotas: []engine.Quota{{Permits: 7, Per: time.Minute}}},
		}})
		require.NoError(t, err)
		points := e.(*fair)
		points.scripts = f.scripts
		take(t, f, amount(1, "tokens=40"))
		take(t, points, amount(1, "points=5"))
		require.Zero(t, take(t, narrow, amount(1, "tokens=10"))[0].Wait)
		at(time.Second)
		require.Equal(t, 59*time.Second, take(t, narrow, amount(1, "tokens=10"))[0].Wait)
		status, err := points.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, engine.UnitStatus{Available: 0, Queued: 0}, status.Units["points"], "the tail is ahead")
		at(time.Minute)
		status, err = points.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, engine.UnitStatus{Available: 7}, status.Units["points"])
		status, err = f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, engine.UnitStatus{Available: 90}, status.Units["tokens"])
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
		status, err := stored.Status(t.Context())
		require.NoError(t, err)
		require.InDelta(t, time.Minute, status.Delay, float64(10*time.Microsecond))
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

// A refund cancels debts, and is taken out at its slot only as far as there are
// none.
func TestARefundCancelsDebtsFirst(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		first := take(t, f, amount(1, "tokens=60"))[0].Grant
		at(30 * time.Second)
		second := take(t, f, amount(1, "tokens=40"))[0].Grant
		settles(t, f, first, 0, "tokens=-30") // at 60 s, beside the second
		settles(t, f, second, 0, "tokens=20")
		status, err := f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, engine.UnitStatus{Queued: 10}, status.Units["tokens"])
		require.False(t, take(t, f, engine.Request{N: 1, Amounts: "tokens=51", MaxWait: 59 * time.Second})[0].Granted)
		require.Equal(t, 30*time.Second, take(t, f, amount(1, "tokens=50"))[0].Wait)
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
		status, err := f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, engine.UnitStatus{Queued: 200}, status.Units["tokens"], "100 after a minute and 100 after two")
		require.Equal(t, 2*time.Minute-time.Second, status.Delay)
	})
}
