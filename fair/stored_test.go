package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
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
			put(f)
			before := snap(t, f)
			{
				_, err := f.Take(ctx, []engine.Request{{N: 1}})
				require.ErrorIs(t, err, engine.ErrState, what)
				_, err = f.Status(ctx)
				require.ErrorIs(t, err, engine.ErrState, what)
				require.ErrorIs(t, f.Look(ctx), engine.ErrState, what)
				_, _, err = f.Quotas(ctx)
				require.ErrorIs(t, err, engine.ErrState, what)
				require.ErrorContains(t, err, "SetQuotas", what)
			}
			require.Equal(t, before.state, snap(t, f).state, what)
			require.NoError(t, f.Reset(ctx))
			_, err := f.Take(ctx, []engine.Request{{N: 1}})
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

func TestNarrowerQuotasSlowDownThoseWhoHoldTurns(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t, quotas(t, "1/1s")...)
		other := f.looksFor(t, quotas(t, "1/1s")...)
		news := hears(other)
		held := queued(t, other, 11, 1)
		comes := func(g engine.Grant) time.Duration {
			require.NoError(t, other.Look(t.Context()))
			return last(t, news).Until(g.At)
		}
		set(t, f, "1/4s")
		require.Equal(t, 40*time.Second, comes(held[10]), "ten seconds, four times as long")
		require.Equal(t, 20*time.Second, comes(held[5]))
		require.Equal(t, 44*time.Second, wait(t, f))
		at(20 * time.Second)
		require.Equal(t, 24*time.Second, wait(t, f))
		require.Equal(t, 24*time.Second, queuedWait(t, other))
		require.Equal(t, 28*time.Second, queuedWait(t, f))

		pause(t, f, 6*time.Second)
		at(22 * time.Second)
		require.InDelta(t, 4*time.Second, status(t, f).Paused, float64(4*time.Microsecond), "it began a label later")
		require.Equal(t, 36*time.Second-time.Microsecond, wait(t, f), "34 − 2, less what a label is rounded")
		at(26 * time.Second)
		set(t, f, "1/8s")
		require.InDelta(t, 8*time.Second, comes(held[6]), float64(time.Millisecond))
		require.InDelta(t, 32*time.Second, comes(held[9]), float64(time.Millisecond))
		set(t, f, "1/1s")
		require.InDelta(t, 8*time.Second, comes(held[6]), float64(time.Millisecond), "no sooner than told")
		require.InDelta(t, 32*time.Second, comes(held[9]), float64(time.Millisecond))
		set(t, f, "1/8s")
		require.InDelta(t, 32*time.Second, comes(held[9]), float64(time.Millisecond), "they are as slow already")
		at(200 * time.Second)
		require.Equal(t, engine.Status{Available: 1}, status(t, f))
	})
}

// Whatever quotas there were meanwhile, held turns come as far apart as the
// narrowest since they were granted asks, and no further.
func TestHeldTurnsGoByTheNarrowestOfSeveralQuotas(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, then := range []string{"1/1s; 10/1s burst 1; 1/1s; 10/1s burst 1; 1/1s", "5/1s burst 1; 2/1s burst 1; 1/1s"} {
			f, _ := w.stored(t)
			set(t, f, "10/1s burst 1")
			held := queued(t, f, 21, 1)
			for text := range strings.SplitSeq(then, "; ") {
				set(t, f, text)
			}
			require.InDelta(t, 20*time.Second, dues(t, f, held)[20], float64(time.Millisecond), then)
		}
		f, _ := w.stored(t)
		set(t, f, "3/2s")
		held := queued(t, f, 12, 1)
		for text := range strings.SplitSeq("1/5s; 7/3s; 1/3s; 10/4s; 1/4s; 7/2s; 1/5s", "; ") {
			set(t, f, text)
		}
		require.InDelta(t, 45*time.Second, dues(t, f, held)[11], float64(time.Millisecond), "three in 15 s, not in 2 s")

		f, _ = w.stored(t)
		set(t, f, "1/1s")
		held = queued(t, f, 11, 1)
		set(t, f, "10/1s burst 1")
		held = append(held, queued(t, f, 20, 1)...)
		set(t, f, "1/1s")
		due := dues(t, f, held)
		require.InDelta(t, 9*time.Second, due[9], float64(time.Millisecond), "they are a second apart already")
		require.InDelta(t, 30900*time.Millisecond, due[30], float64(time.Millisecond), "the second before them is slow, too")
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

func TestALookFindsOutThatOtherQuotasAreStored(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		f, _ := w.stored(t, quotas(t, "1/1s")...)
		other := f.looksFor(t, quotas(t, "1/1s")...)
		held := queued(t, f, 3, 1)
		require.NoError(t, w.rdb.Set(ctx, f.quotaKey(), "1/10s", 0).Err())
		news := hears(f)
		require.NoError(t, f.Look(ctx))
		require.Equal(t, 20*time.Second, last(t, news).Until(held[2].At))
		holds(t, f, "1/10s", true)
		queued(t, other, 1, 1)
		require.NoError(t, f.Look(ctx))
		require.Equal(t, 20*time.Second, last(t, news).Until(held[2].At), "once is enough")
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

// A label of a very slow clock lasts for seconds. A wait becomes shorter
// nevertheless.
func TestAWaitPassesWithinALabel(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t, quotas(t, "1000/1s")...)
		queued(t, f, 2, 1000)
		set(t, f, "1/1h")
		at(time.Second)
		before := wait(t, f)
		at(2 * time.Second)
		require.InDelta(t, time.Second, before-wait(t, f), float64(10*time.Microsecond))
	})
}

func TestCallersWithQuotasOfTheirOwnSlowNobodyDown(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		set(t, f, "10/1s burst 1")
		held := queued(t, f, 11, 1)
		queued(t, f.joins(t, quotas(t, "1/1s")...), 1, 1)
		require.Equal(t, time.Second, dues(t, f, held)[10])
	})
}

func TestAResetLetsTheClockRunAsBefore(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t, quotas(t, "1/1s")...)
		queued(t, f, 10, 1)
		set(t, f, "1/1m")
		news := hears(f)
		require.NoError(t, f.Reset(t.Context()))
		require.Zero(t, last(t, news).Slow)
		queued(t, f, 2, 1)
		require.Equal(t, engine.Status{Queued: 1, Delay: 2 * time.Minute}, status(t, f))
	})
}

// From very many permits to very few: the pace must stay a number that the
// scripts read again.
func TestAQuotaThatBecomesVeryMuchNarrowerLeavesAStateThatCanBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, now := range []time.Duration{0, 1999 * time.Millisecond} {
			f, at := w.stored(t, quotas(t, "1000000/1s")...)
			queued(t, f, 3, 1000000)
			at(now)
			set(t, f, "1/12h")
			pause(t, f, longestPer)
			at(2 * time.Second)
			require.NoError(t, f.Look(t.Context()))
			status(t, f)
			queued(t, f, 1, 1)
			require.Greater(t, queuedWait(t, f), longestPer)
		}
	})
}

// A limiter that looks for stored quotas begins, as one does for each run of
// "fairlimit wait", while others keep to wider quotas of their own. Each time the
// clock runs slower by the same ratio once more.
func TestTheClockDoesNotSlowDownMoreWithEachProcessThatBegins(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "20/1s burst 1")...)
		set(t, f.looksFor(t), "10/1s burst 1")
		held := queued(t, f, 100, 1)
		for range 6 {
			status(t, f.looksFor(t)) // a new process
			queued(t, f, 1, 1)       // one that keeps to its own
		}
		news := hears(f)
		require.NoError(t, f.Look(t.Context()))
		require.Less(t, last(t, news).Until(held[99].At), 11*time.Second,
			"20/s held, 10/s stored: at most twice as long")
	})
}

// Quotas change while turns are held. These come as far apart as the newest quota
// wants, and not much later than that.
func TestANarrowerQuotaSlowsHeldTurns(t *testing.T) {
	type step struct {
		quota string
		turns int // that are taken then
	}
	for what, c := range map[string]struct {
		steps  []step
		from   int // the first turn that is judged
		window model.Window
		last   time.Duration // when the last comes at the latest
	}{
		"each by what its own quota asks": {
			[]step{{"1/10ms", 3}, {"1/10s", 9}, {"1/11s", 0}},
			0,
			model.Window{Permits: 1, Length: 11_000_000},
			150 * time.Second,
		},
		"by the rate, where one moment holds more than the quota": {
			[]step{{"20/1s", 60}, {"10/1s", 0}},
			0,
			model.Window{Permits: 20, Length: 2_000_000},
			4001 * time.Millisecond,
		},
		"those from before a wide quota, and those from meanwhile": {
			[]step{{"1/1s 3/10s", 5}, {"1/100ms 3/1s", 2}, {"1/1s 3/10s", 0}},
			0,
			model.Window{Permits: 3, Length: 10_000_000},
			time.Minute,
		},
		"the same at one slot": {
			[]step{{"3/1s 4/10s", 8}, {"3/100ms 4/1s", 2}, {"3/1s 4/10s", 0}},
			0,
			model.Window{Permits: 4, Length: 10_000_000},
			time.Minute,
		},
		"those at the last slot of slow ones, that are less slow than they have to be": {
			[]step{{"10/250ms", 30}, {"10/1s", 15}, {"10/1.5s", 5}, {"10/7.3s", 0}, {"10/500ms", 5}, {"10/4s", 0}},
			40,
			model.Window{Permits: 14, Length: 4_000_000},
			3 * time.Minute,
		},
		"those behind others that are slow already": {
			[]step{{"1/1s", 5}, {"1/4s", 0}, {"1/1s", 5}, {"1/2s", 0}, {"1/4s", 0}},
			5,
			model.Window{Permits: 1, Length: 4_000_000},
			time.Minute,
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				f, _ := w.stored(t)
				var held []engine.Grant
				for _, s := range c.steps {
					set(t, f, s.quota)
					held = append(held, queued(t, f, s.turns, 1)...)
				}
				var turns []model.Turn
				for _, due := range dues(t, f, held[c.from:]) {
					turns = append(turns, model.Turn{Slot: due.Microseconds(), N: 1})
				}
				require.NoError(t, model.Strict([]model.Window{c.window}, turns))
				require.LessOrEqual(t, microseconds(turns[len(turns)-1].Slot), c.last)
			})
		})
	}
}
