package fair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
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

func amount(n int, amounts engine.Amounts) engine.Request {
	return engine.Request{N: n, Amounts: amounts, MaxWait: engine.Forever}
}

const tokens = "3/1s; tokens 100/1m"

func TestUnits(t *testing.T) {
	tell(t, []story{
		{
			"limiters with other windows of a unit are held to their own, others leave it alone", tokens,
			"b has 3/1s; tokens 50/1m, c has 3/1s; points 7/1m, a takes 1 tokens=40, c takes 1 points=5, " +
				"b takes 1 tokens=10 after 0s, at 1s, b takes 1 tokens=10 after 59s, c points 0 0, " + // the tail is ahead
				"at 1m, c points 7 0, a tokens 90",
		},
		{"a pause holds units", tokens, "b has 3/1s, a takes 1 tokens=100, b pauses 10m, lives >10m, units live >10m, " +
			"at 9m, a takes 1 tokens=100 after ~2m"},
		{"a reset forgets them", tokens, "a takes 1 tokens=100, {a|b} resets, b takes 1 tokens=100 after 0s"},
		{"debts under other windows of calls", tokens, "b has 3/1s 5/2s 70/1m; tokens 100/1m, b takes 1 tokens=60, " +
			"a takes 1 tokens=1, at 1s, b settles 0 -2 tokens=-60, a tokens 0 21"},
		{"debts of calls alone under other windows", "5/1m", "b has 10/1s, b takes 1, at 100ms, a takes 4, " +
			"b settles 0 -1 calls=0, a takes 1 after >=59s, b takes 1"},
		{"debts of calls under a stored quota that changed", "stored", "stored 3/1s, a takes 1, at 100ms, " +
			"stored {100/1m|10/1s 30/1m}, a settles 0 -2 calls=0, a takes 1, a exceeds 101"},
		{"debts of calls once the stored quota is forgotten", "stored", "stored 5/1m, a takes 2, at 100ms, " +
			"b forgets, a looks, a settles 0 -1 calls=0, stored 5/1m, a available 2"},
		{"a limiter of calls alone can give back what has none", tokens, "b has 3/1s, a takes 0 tokens=100, " +
			"a takes 0 tokens=100, a returns 1, b returns a 1, a tokens 0 0"},
		// Also once the unit has moved to make room for another. One debt is due at once.
		{"a refund cancels the forty newest debts that lie ahead", "3/1s; tokens 1/1s", "a takes 3, at 1s, " +
			"a settles 0 0 tokens=-25, a settles 1 0 tokens=-25, a tokens 0 49, " +
			"{a settles 2 0 tokens=60, a tokens 0 9, a waits 9s|" +
			"b has 3/1s; points 7/1m, b takes 0 points=1, a settles 2 0 tokens=60, a tokens 0 9}"},
		{"the tail of a unit stays", "1/1s; tokens 100/1m", "b has 1/1s, b takes 5, a takes 0 tokens=100, " +
			"a takes 0 tokens=100 after 1m4s, {b takes 2, b returns 5:|" +
			"c has 1/1s; points 7/1m, c takes 0 points=5, c returns|" +
			"c has 2/3s, c refused within 1s}, b takes 1 after >=1m4s"},
	})
}

func TestUnitsThatAreLost(t *testing.T) {
	tell(t, []story{
		{"they count again, once", tokens, "a takes 1 tokens=60, a takes 1 tokens=60, at 100ms, " +
			"{lost|units lost|calls lost}, a takes 1 tokens=41 after >=1m59.9s <=2m, " +
			"a takes 1 tokens=40 after same, at 4m, a takes 1 tokens=100 after 0s"},
		{"once, though their key alone is lost", tokens, "a takes 1 tokens=100 after 0s, at 60s, " +
			"b takes 1 tokens=60 after 0s, at 61s, " +
			"a takes 1 tokens=40 after 0s, at 62s, units lost, a tokens 0, at 89s, a takes 1, at 90s, " +
			"b tokens 0, {|moves,} at 121s, a tokens 100, b tokens 100"},
		{
			"as long as a window of the unit", tokens,
			"a takes 1 tokens=100 after 0s, lost, at 5s, a takes 1 tokens=1 after 55s",
		},
		{"those that a replica lacks, though no call is lost", tokens, "a takes 1 tokens=10, kept, a takes 0 tokens=80, " +
			"at 200ms, put, promoted, b takes 1 tokens=5 after 0s, a tokens 5, a tokens 5"},
		{
			"what each limiter knows, if one asks first that knows less, and after a second loss", tokens,
			"c has 3/1s, c takes 1, a takes 1 tokens=10, at 10s, b takes 1 tokens=80 after 0s, " +
				"{|lost, c takes 1, d takes 1 tokens=1, a takes 1,} lost, c takes 1, d takes 1 tokens=1, a takes 1, " +
				"b takes 1 tokens=30 after >=1m",
		},
		// Calls of since say nothing of tokens.
		{"none that had left before", tokens, "a takes 1 tokens=100 after 0s, at 59s, {a|b} takes 1, at 61s, " +
			"a waited 61s, b waited 2s, {|lost,} " +
			"{|c has 3/1s, c takes 1,} {|a looks,} {a|b} asks, a tokens 100, b tokens 100, c has 3/1s, a heard no loss"},
		// A pause and a look restore no units, but do not forget them either.
		{"after a pause of who knows, and turns of others", tokens, "b takes 1 tokens=10, kept, a takes 1 tokens=50, " +
			"at 200ms, put, promoted, a pauses 1ms, at 1s, b takes 1 tokens=50 after 0s, a takes 1 tokens=1 after >50s"},
		{"after a look of who knows", tokens, "a takes 1 tokens=100, lost, at 5s, a looks, b has 3/1s, b takes 1x3, " +
			"a looks, a takes 1 tokens=1 after >=55s"},
		{"not again after handovers that lose nothing", tokens, "moves, a takes 1 tokens=30, b takes 1 tokens=10, " +
			"at 1s, moves, {|a takes 1,|a takes 1 tokens=1,} {|b looks,} at 2s, moves, a takes 1, at 3s, " +
			"{a|b} takes 1 tokens=40 after <=1s, a heard no loss, b heard no loss"},
		{"no longer, in a queue of others without turns", tokens, "a takes 1 tokens=100, at 59900ms, lost, c pauses 1ms, " +
			"{|a looks,|a pauses 1ms,} a asks, at 61s, a takes 1 tokens=100 after <=1s"},
		{"under other windows, for a status", tokens, "b has 3/1s; tokens 100/1m 7000/2h, a takes 1 tokens=1, at 1s, " +
			"a takes 1 tokens=1, at 2s, a takes 1 tokens=1, kept, b takes 0 tokens=50, put, at 3s, b tokens 47, a tokens 47"},
		{"for longer windows of others", tokens, "b has 3/1s; tokens 100/1m 250/1h, b takes 1 tokens=1, " +
			"a takes 1 tokens=9, kept, a takes 1 tokens=90, a takes 1 tokens=100, at 1s, back, a takes 1, at 3m, b tokens 50"},
		{"where others have begun a queue", tokens, "c has 3/1s, c takes 1, at 500ms, d has 3/1s, d takes 1, lost, " +
			"e has 3/1s, e takes 1, c takes 1, a takes 1 tokens=100, d takes 1, b takes 1 tokens=1 after >=1m1s"},
		{"who counts calls only restores a pause for them as well", tokens, "c has 3/1s, a takes 1 tokens=100, kept, " +
			"c pauses 1h, back, at 200ms, c takes 1, units live >59m"},
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

// A limiter that looks for stored quotas knows none before its first question.
func TestObserveIsTheFirstQuestion(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		require.ErrorIs(t, f.Observe(t.Context(), "", 1), engine.ErrNoQuota)
		require.NoError(t, w.rdb.Set(t.Context(), f.quotaKey(), "5/1s; tokens 100/1s", 0).Err())
		require.NoError(t, f.looksFor(t).Observe(t.Context(), "", 2))
		require.NoError(t, f.looksFor(t, quotas(t, "9/1s")...).Observe(t.Context(), "tokens", 70))
		require.Equal(t, 2, status(t, f).Available)
		require.Equal(t, 70, status(t, f).Units["tokens"].Available)
		require.ErrorIs(t, f.Observe(t.Context(), "points", 1), engine.ErrUnknownUnit)
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

// What no limiter could read is not stored.
func TestWhoStoresQuotasHearsWhetherTheyAreStored(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		set(t, f, "1/1s") // the server knows the scripts
		left := 100
		f.client.(*redis.Client).AddHook(redistest.Hook(
			func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
				if left--; left < 0 {
					cmd.SetErr(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
					return cmd.Err()
				}
				return next(ctx, cmd)
			}))
		for n := range 4 {
			left = n
			err := f.SetQuotas(t.Context(), quotas(t, "1/2s"))
			left = 100
			want := engine.ErrUnreachable
			if w.rdb.Get(t.Context(), f.quotaKey()).Val() != "1/1s" {
				want = engine.ErrOutcomeUnknown
			}
			require.ErrorIs(t, err, want)
			require.Equal(t, want == engine.ErrUnreachable, errors.Is(err, engine.ErrUnreachable))
			set(t, f, "1/1s")
		}
	})
}

func TestQuotasThatAreTooLongAreNotStored(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		text := "1/1s"
		for i := range mostUnits {
			text += fmt.Sprintf("; is_a_unit_with_so_long_a_name%d 900000000/1000h", i)
			for hours := range mostWindows - 1 {
				text += fmt.Sprintf(" %d/%dh", 800_000_000-hours, 100*hours+100)
			}
		}
		known, err := f.storedQuotaSet(text)
		require.NoError(t, err)
		f.known.Store(known)
		require.ErrorIs(t, f.SetQuotas(t.Context(), quotas(t, "1/1s")), engine.ErrUnsupported)
		require.Equal(t, text, w.rdb.Get(t.Context(), f.quotaKey()).Val(), "as it was")
	})
}

func TestWhatNobodyKnowsTheWorthOfCountsByItsCalls(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		first, _ := w.queue(t, quotas(t, "1/1s")...)
		f := first.enters(t, storedScripts, engine.Config{
			Units: []engine.Unit{{Name: "tokens", Quotas: quotas(t, "1000/1s")}}, Stored: true,
		})
		require.NoError(t, w.rdb.Set(t.Context(), f.quotaKey(), "10/1s", 0).Err())
		require.Equal(t, 2, f.CostOf(2, "tokens=1000"))
		require.NoError(t, f.Look(t.Context()))
		require.Equal(t, 10, f.CostOf(2, "tokens=1000"))
	})
}

// Nobody has asked before. The limiter was given another quota of the unit.
func TestNewQuotasOfCallsLeaveThoseOfUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		first, _ := w.queue(t, quotas(t, "1/1s")...)
		own := engine.Config{
			Quota: quotas(t, "60/1m")[0], Units: []engine.Unit{{Name: "tokens", Quotas: quotas(t, "100/1m")}}, Stored: true,
		}
		f := first.enters(t, storedScripts, own)
		for stored, want := range map[string]string{
			"": "30/1m; tokens 100/1m", "60/1m; tokens 50/1m": "30/1m; tokens 50/1m", "no quota": "30/1m; tokens 100/1m",
		} {
			require.NoError(t, w.rdb.Set(t.Context(), f.quotaKey(), stored, 0).Err())
			f = first.enters(t, storedScripts, own)
			set(t, f, "30/1m")
			require.Equal(t, want, w.rdb.Get(t.Context(), f.quotaKey()).Val())
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
			require.Zero(t, take(t, f, amount(1, engine.Amounts(units[6].Name+"=7")))[0].Wait)
		}
		available := status(t, f).Units[units[6].Name].Available
		require.Equal(t, 900_000_000-21, available)
	})
}
