package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestStoredQuotasTakeThePlaceOfTheGivenOnes(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		f, at := w.stored(t, quotas(t, "2/1m")...)
		other, plain := f.looksFor(t, quotas(t, "3/1m")...), f.joins(t, quotas(t, "2/1m")...)
		require.Equal(t, engine.Status{Available: 3}, status(t, other), "each has its own while none are stored")
		set(t, f, "5/1m burst 1 20/1h")
		require.EqualValues(t, -1, w.rdb.TTL(ctx, f.quotaKey()).Val())
		queued(t, other, 1, 1)
		require.Equal(t, 12*time.Second, queuedWait(t, f))
		late := queuedWait(t, plain)
		require.GreaterOrEqual(t, late, time.Minute, "who does not look is held to its own")
		require.LessOrEqual(t, late, 72*time.Second, "as if all of others' turns stood at the newest slot")

		at(time.Hour)
		require.NoError(t, w.rdb.Set(ctx, f.quotaKey(), " 7/60000ms\n", 0).Err()) // as a person may
		holds(t, other, "7/1m", true)
		require.NoError(t, f.SetQuotas(ctx, nil))
		require.EqualValues(t, 1, w.rdb.Exists(ctx, f.quotaKey()).Val(), "who knew others writes them no more")
		holds(t, other, "3/1m", false)
	})
}

func TestStoredQuotasThatWereLostAreWrittenAgain(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		f, _ := w.stored(t, quotas(t, "2/1m")...)
		set(t, f, "5/1m")
		for what, ask := range map[string]func(){
			"Take":   func() { queued(t, f, 1, 1) },
			"Status": func() { status(t, f) },
			"Look":   func() { require.NoError(t, f.Look(ctx)) },
			"Quotas": func() { holds(t, f, "5/1m", true) },
		} {
			require.NoError(t, w.rdb.Del(ctx, f.key, f.quotaKey()).Err())
			ask()
			require.Equal(t, "5/1m", w.rdb.Get(ctx, f.quotaKey()).Val(), what)
		}
		require.NoError(t, f.SetQuotas(ctx, nil))
		require.NoError(t, w.rdb.Del(ctx, f.quotaKey()).Err())
		queued(t, f, 1, 1)
		require.Zero(t, w.rdb.Exists(ctx, f.quotaKey()).Val(), "there is nothing to write again")
	})
}

func TestNobodyGoesByQuotasThatCannotBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		nine := "1/1s 2/2s 3/4s 4/7s 5/9s 6/11s 7/15s 8/17s 9/19s"
		for what, put := range map[string]func(f *fair){
			"no quotas":      func(f *fair) { w.rdb.Set(ctx, f.quotaKey(), "20 a second", 0) },
			"half of them":   func(f *fair) { w.rdb.Set(ctx, f.quotaKey(), "20/1s 5/1h burst", 0) },
			"too many":       func(f *fair) { w.rdb.Set(ctx, f.quotaKey(), nine, 0) },
			"too long a Per": func(f *fair) { w.rdb.Set(ctx, f.quotaKey(), "1/99999h", 0) },
			"a list":         func(f *fair) { w.rdb.RPush(ctx, f.quotaKey(), "20/1s") },
			"a kilobyte":     func(f *fair) { w.rdb.Set(ctx, f.quotaKey(), string(make([]byte, 1024)), 0) },
		} {
			f, _ := w.stored(t, quotas(t, "2/1m")...)
			held := queued(t, f, 3, 1)
			put(f)
			before := snap(t, f)
			_, err := f.Take(ctx, []engine.Request{{N: 1}})
			require.ErrorIs(t, err, engine.ErrState, what)
			_, err = f.Status(ctx)
			require.ErrorIs(t, err, engine.ErrState, what)
			require.ErrorIs(t, f.Look(ctx), engine.ErrState, what)
			_, _, err = f.Quotas(ctx)
			require.ErrorIs(t, err, engine.ErrState, what)
			require.ErrorContains(t, err, "SetQuotas", what)
			require.Equal(t, before.state, snap(t, f).state, what)
			giveBack(t, f, held[2])
			pause(t, f, time.Minute)
			other := status(t, f.joins(t, quotas(t, "2/1m")...))
			require.Equal(t, []any{time.Minute, 0}, []any{other.Paused, other.Queued}, "%s: a pause, and a return", what)
			sleeps := f.looksFor(t, quotas(t, "2/1m")...)
			news := hears(sleeps)
			require.ErrorIs(t, sleeps.Look(ctx), engine.ErrState)
			require.Equal(t, time.Minute, last(t, news).Stands, "%s: those who sleep hear of the pause", what)
			require.NoError(t, f.Reset(ctx))
			_, err = f.Take(ctx, []engine.Request{{N: 1}})
			require.ErrorIs(t, err, engine.ErrState, "%s: a reset leaves it as it is", what)
			set(t, f, "3/1m")
			require.Equal(t, 3, status(t, f).Available)
		}
	})
}

func TestWhatExceedsTheStoredQuotasIsRefusedByThem(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		f, _ := w.stored(t, quotas(t, "2/1m")...)
		admin := f.looksFor(t)
		require.NoError(t, f.Fits(1000), "nobody knows before it is asked")
		_, err := admin.Take(ctx, []engine.Request{{N: 1}})
		require.ErrorIs(t, err, engine.ErrNoQuota)
		require.ErrorIs(t, take(t, f, engine.Request{N: 3})[0].Err, engine.ErrExceedsQuota)

		set(t, admin, "4/1m")
		answers := take(t, f,
			engine.Request{N: 5}, engine.Request{N: 3}, engine.Request{N: 9, MaxWait: engine.Forever},
			engine.Request{N: 2}, engine.Request{N: 1}, engine.Request{N: 5})
		for i, granted := range []bool{false, true, false, false, true, false} {
			require.Equal(t, granted, answers[i].Granted, i)
		}
		for _, i := range []int{0, 2, 5} {
			require.ErrorIs(t, answers[i].Err, engine.ErrExceedsQuota)
		}
		require.NoError(t, answers[3].Err, "it fits, later")
		set(t, admin, "9/1m")
		require.True(t, take(t, f, engine.Request{N: 9, MaxWait: engine.Forever})[0].Granted, "wider than it knew")
	})
}

// There are more changes than the notes have room for. Stretches that were joined
// know a rate, but no longer to the microsecond.
func TestHeldTurnsOfManyQuotasComeInOrderAndFarEnoughApart(t *testing.T) {
	const rounding = 20 * time.Microsecond
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 26))
			f, _ := w.stored(t)
			var held []engine.Grant
			var told []time.Duration
			for change := range 30 {
				permits := 1 + rng.IntN(20)
				set(t, f, fmt.Sprintf("%d/1s burst 1", permits))
				held = append(held, queued(t, f, rng.IntN(4), 1)...)
				due := dues(t, f, held)
				for i, at := range due {
					what := fmt.Sprintf("seed %d, change %d, turn %d", seed, change, i)
					if i > 0 {
						require.GreaterOrEqual(t, at-due[i-1]+rounding, time.Second/time.Duration(permits), what)
					}
					if i < len(told) {
						require.GreaterOrEqual(t, at+rounding, told[i], what)
					}
				}
				told = due
			}
		}
	})
}

func TestBothKeysAreInOneSlotOfACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t)
	for _, name := range []string{"plain", "a}b{c", "{", "{}", " }"} {
		name += redistest.Name(t)
		quota := engine.Quota{Permits: 1, Per: time.Hour}
		e, err := New(engine.Config{Client: rdb, Name: name, Quota: quota, Stored: true})
		require.NoError(t, err)
		f := e.(*fair)
		set(t, f, "5/1m")
		require.Equal(t, 5, status(t, f).Available)
		require.Equal(t,
			rdb.ClusterKeySlot(t.Context(), f.key).Val(), rdb.ClusterKeySlot(t.Context(), f.quotaKey()).Val(), name)
	}
	cfg := engine.Config{Client: rdb, Name: "}", Quota: engine.Quota{Permits: 1, Per: time.Hour}}
	e, err := New(cfg)
	require.NoError(t, err)
	require.ErrorIs(t, e.(*fair).SetQuotas(t.Context(), nil), engine.ErrUnsupported)
	cfg.Stored = true
	_, err = New(cfg)
	require.ErrorIs(t, err, engine.ErrUnsupported)
}

func TestQuotasThatCannotBeHeldAreNotStored(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	f, _ := w.stored(t, quotas(t, "1/1s")...)
	for _, q := range []engine.Quota{
		{Permits: 1, Per: longestPer + 1},
		{Permits: mostPermits + 1, Per: time.Hour},
		{Permits: 0, Per: time.Hour},
	} {
		require.ErrorIs(t, f.SetQuotas(t.Context(), []engine.Quota{q}), engine.ErrUnsupported)
	}
	require.Zero(t, w.rdb.Exists(t.Context(), f.quotaKey()).Val())
}

func TestQuotasThatNeverStayAreAnError(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartServer(t).Client()
	f := build(t, rdb, engine.Quota{Permits: 1, Per: time.Hour}).looksFor(t)
	texts := 0
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if cmd.Name() == "evalsha" {
			texts++
			f.client.Set(ctx, f.quotaKey(), fmt.Sprintf("%d/1h", texts), 0)
		}
		return next(ctx, cmd)
	}))
	_, err := f.Take(t.Context(), []engine.Request{{N: 1}})
	require.ErrorIs(t, err, engine.ErrState)
	require.ErrorContains(t, err, "changed 4 times")
	require.Zero(t, rdb.Exists(t.Context(), f.key).Val(), "nothing was granted")
}

func TestTheGuardIsAddedToStoredQuotas(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		guarded := f.looksFor(t)
		guarded.guard = 100 * time.Millisecond
		set(t, f, "1/1s")
		queued(t, guarded, 1, 1)
		require.Equal(t, 1100*time.Millisecond, queuedWait(t, guarded))
		set(t, guarded, "1/2s")
		require.Equal(t, "1/2s", w.rdb.Get(t.Context(), f.quotaKey()).Val())
	})
}

// The first decision after a change obeys it, for one more question a process.
func TestAChangeOfQuotasCostsEachProcessOneQuestion(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartServer(t).Client()
	f := build(t, rdb, engine.Quota{Permits: 1, Per: time.Hour})
	one, other := f.looksFor(t, quotas(t, "3/1h")...), f.looksFor(t, quotas(t, "3/1h")...)
	queued(t, one, 1, 1)
	var count atomic.Int64 // scripts
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if cmd.Name() == "evalsha" {
			count.Add(1)
		}
		return next(ctx, cmd)
	}))
	queued(t, one, 1, 1)
	queued(t, other, 1, 1)
	require.EqualValues(t, 2, count.Swap(0), "nothing is stored")
	set(t, one, "4/1h")
	count.Store(0)
	for i, process := range []*fair{one, other} {
		granted := take(t, process, engine.Request{N: 1})[0].Granted
		require.Equal(t, i == 0, granted, "the new quota has one permit more")
		require.EqualValues(t, 1+i, count.Swap(0), "the first has stored it")
		require.False(t, take(t, process, engine.Request{N: 1})[0].Granted)
		require.EqualValues(t, 1, count.Swap(0), "from then on it costs nothing more")
	}
}

// Turns that are held when quotas change come as far apart as the narrowest wants
// since they were granted, and not much later than that.
func TestNarrowerQuotasSlowHeldTurns(t *testing.T) {
	tell(t, []story{
		{"all of them, until they have passed", "stored 1/1s", "b takes 11, a sets 1/4s, b holds 10 in 40s, " +
			"b holds 5 in 20s, a waits 44s, at 20s, a waits 24s, b takes 1 after 24s, a takes 1 after 28s, " +
			"a pauses 6s, at 22s, a paused ~4s, a waits 35.999999s, " + // 34 − 2, less what a label is rounded
			"at 26s, a sets 1/8s, b holds 6 in ~8s, b holds 9 in ~32s, " +
			"a sets 1/1s, b holds 6 in ~8s, b holds 9 in ~32s, " + // no sooner than told
			"a sets 1/8s, b holds 9 in ~32s, at 200s, a waits 0s"}, // they were as slow already
		{"by the narrowest of several", "stored", "a sets 10/1s burst 1, a takes 21, a sets 1/1s, " +
			"{a sets 10/1s burst 1, a sets 1/1s|a sets 2/1s burst 1}, a holds 20 in ~20s"},
		{"three in 15 s, not in 2 s", "stored", "a sets 3/2s, a takes 12, a sets 1/5s, a sets 7/3s, a sets 1/3s, " +
			"a sets 10/4s, a sets 1/4s, a sets 7/2s, a sets 1/5s, a holds 11 in ~45s"},
		{"those that are far enough apart do not slow down, but a second before others", "stored", "a sets 1/1s, " +
			"a takes 11, a sets 10/1s burst 1, a takes 20, a sets 1/1s, a holds 9 in ~9s, a holds 30 in ~30.9s"},
		{"a look finds out", "stored 1/1s", "a takes 3, stored 1/10s, a looks, a heard 2 in 20s, a obeys 1/10s, b takes 1, " +
			"a looks, a heard 2 in 20s"}, // once is enough
		{
			"callers with quotas of their own slow nobody down", "stored",
			"a sets 10/1s burst 1, a takes 11, b has 1/1s, b takes 1, a holds 10 in 1s",
		},
		{
			"a reset lets the clock run as before", "stored 1/1s",
			"a takes 10, a sets 1/1m, a resets, a takes 2, a queued 1, a waits 2m, a holds 11 in 1m",
		},
		// A label of a very slow clock lasts for seconds.
		{
			"a wait becomes shorter within a label", "stored 1000/1s",
			"a takes 2x1000, a sets 1/1h, at 1s, a waits ~1000h59m59s, at 2s, a waits ~1000h59m58s",
		},
		// The pace must stay a number that the scripts read again.
		{"from very many permits to very few", "stored 1000000/1s", "a takes 3x1000000, {|at 1.999s}, a sets 1/12h, " +
			"a pauses 87600h, at 2s, a looks, a asks, a takes 1, a takes 1 after >87600h"},
		// Others keep to a wider quota of their own. Each time the clock would run
		// slower by the same ratio once more.
		{"once, not with each process that begins", "20/1s burst 1", "b begins, b sets 10/1s burst 1, a takes 100, " +
			"b begins, b asks, a takes 1, b begins, b asks, a takes 1, b begins, b asks, a takes 1, a holds 99 in <11s"},

		{"each by what its own quota asks", "stored", "a sets 1/10ms, a takes 3, a sets 1/10s, a takes 9, a sets 1/11s, " +
			"a keeps 1/11s, a holds 11 in <=150s"},
		{
			"by the rate, where one moment holds more than the quota", "stored",
			"a sets 20/1s, a takes 60, a sets 10/1s, a keeps 20/2s, a holds 59 in <=4.001s",
		},
		{"those from before a wide quota, and those from meanwhile", "stored", "a sets 1/1s 3/10s, a takes 5, " +
			"a sets 1/100ms 3/1s, a takes 2, a sets 1/1s 3/10s, a keeps 3/10s, a holds 6 in <=1m"},
		{"the same at one slot", "stored", "a sets 3/1s 4/10s, a takes 8, a sets 3/100ms 4/1s, a takes 2, " +
			"a sets 3/1s 4/10s, a keeps 4/10s, a holds 9 in <=1m"},
		{"those at the last slot of slow ones, that are less slow than they have to be", "stored", "a sets 10/250ms, " +
			"a takes 30, a sets 10/1s, a takes 15, a sets 10/1.5s, a takes 5, a sets 10/7.3s, a sets 10/500ms, a takes 5, " +
			"a sets 10/4s, a keeps 40: 14/4s, a holds 54 in <=3m"},
		{"by the quotas of whoever asked last", "stored", "a begins 1/5s, b begins 1/1s, b takes 5, c sets 1/10s, " +
			"b apart >=9.9s"},
		{"those behind others that are slow already", "stored", "a sets 1/1s, a takes 5, a sets 1/4s, a sets 1/1s, " +
			"a takes 5, a sets 1/2s, a sets 1/4s, a keeps 5: 1/4s, a holds 9 in <=1m"},
	})
}

// A limiter goes by a longer quota of its own once the stored text says nothing
// of its unit. The queue has not granted anything under it, and ends.
func TestNothingCountsForLongerThanTheServerTold(t *testing.T) {
	tooMuch := func(t *testing.T, f *fair) {
		require.ErrorIs(t, take(t, f, amount(1, "tokens=500"))[0].Err, engine.ErrExceedsQuota)
	}
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, c := range []struct {
			stores []engine.Quota
			asks   func(t *testing.T, f *fair)
		}{
			{nil, func(t *testing.T, f *fair) { status(t, f) }},
			{nil, tooMuch},
			{quotas(t, "10/1s"), tooMuch},
		} {
			first, at := w.queue(t, quotas(t, "1/1s")...)
			long := engine.Unit{Name: "tokens", Quotas: quotas(t, "100/1h")}
			f := first.enters(t, storedScripts, engine.Config{
				Quota: quotas(t, "10/1s")[0], Units: []engine.Unit{long}, Stored: true,
			})
			operator := first.enters(t, storedScripts, engine.Config{Stored: true})
			require.NoError(t, w.rdb.Set(t.Context(), first.quotaKey(), "10/1s; tokens 100/1s", 0).Err())
			ask := func() engine.Answer { return take(t, f, engine.Request{N: 1, Amounts: "tokens=5"})[0] }
			require.True(t, ask().Granted)
			at(500 * time.Millisecond)
			require.NoError(t, operator.SetQuotas(t.Context(), c.stores))
			c.asks(t, f)
			require.Less(t, w.ttl(t, first.key), 2*time.Second)
			require.NoError(t, w.rdb.Del(t.Context(), first.key, first.unitsKey()).Err()) // they end
			f.memory.news.Arrived = f.memory.news.Arrived.Add(-5 * time.Second)
			at(5500 * time.Millisecond)
			require.True(t, ask().Granted, "nothing was lost")
		}
	})
}

// What was given back stays given back for those who were told of it, though a
// server takes over that has all of it.
func TestReturnsAndAFailoverThatLosesNothing(t *testing.T) {
	tell(t, []story{
		{"who comes does not wait for turns that are gone", "stored", "moves, a sets 1/1s, a takes 100, a sets 1/100s, " +
			"{moves|}, a returns 1:, {|a looks,|a asks,} at 10ms, a takes 1 after <=101s, a takes 1 after <=201s"},
		{"others come first", "stored", "moves, a sets 1/1s, a takes 100, a sets 1/100s, {moves|}, a returns 1:, " +
			"at 10ms, b takes 2 after <=201s, a looks, b holds 0 in <=101s"},
		{"a narrower quota slows turns of since", "stored", "moves, a sets 1/10s, a takes 3, a sets 1/20s, {moves|}, " +
			"a returns 2, {a asks|a looks|}, a sets 1/100ms, a takes 110, at 10ms, a sets 1/20s, a keeps 3: 1/19999ms"},
		{"others gave back", "stored", "moves, a sets 1/10s, a takes 3, a sets 1/20s, b looks, moves, b returns a 2, " +
			"{a looks|a asks|}, a sets 1/100ms, a takes 110, at 10ms, a sets 1/20s, a keeps 3: 1/19999ms"},
	})
}
