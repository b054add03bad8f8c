package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestTheKeyLivesUntilTheLastSlotHasLeftTheLongestWindow(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(
			t,
			engine.Quota{Permits: 1, Per: time.Second},
			engine.Quota{Permits: 7, Per: 7_000_500 * time.Nanosecond},
		)
		queued(t, f, 1, 1)
		require.Equal(t, time.Second+time.Millisecond, w.ttl(t, f))
		at(300_100 * time.Microsecond)
		queued(t, f, 2, 1)
		require.Equal(
			t,
			3*time.Second-300*time.Millisecond+time.Millisecond,
			w.ttl(t, f),
			"699.9 ms, 1 s, 1 s, rounded up, and one more",
		)
	})
}

func TestARefusalChangesNothing(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 2, Per: time.Minute})
		queued(t, f, 5, 1)
		start := time.Now()
		before, life := w.rdb.Get(t.Context(), f.key).Val(), w.rdb.PTTL(t.Context(), f.key).Val()
		at(time.Second)
		for _, r := range []engine.Request{{N: 1}, {N: 2, MaxWait: 3*time.Minute - time.Second - time.Microsecond}} {
			require.False(t, take(t, f, r)[0].Granted)
		}
		_ = wait(t, f)
		require.Equal(t, before, w.rdb.Get(t.Context(), f.key).Val())
		passed := life - w.rdb.PTTL(t.Context(), f.key).Val()
		require.Less(t, passed, time.Since(start)+2*time.Second, "Redis would take 1000 s off if it was written anew")
		require.True(
			t,
			take(t, f, engine.Request{N: 2, MaxWait: 3*time.Minute - time.Second})[0].Granted,
			"one microsecond more",
		)
	})
}

func TestARefusalWritesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	f := build(t, s.Client(), engine.Quota{Permits: 1, Per: time.Hour})
	writes := func() int {
		_, rest, _ := strings.Cut(s.Client().Info(t.Context(), "commandstats").Val(), "cmdstat_psetex:calls=")
		var n int
		_, _ = fmt.Sscanf(rest, "%d", &n)
		return n
	}
	require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
	require.Equal(t, 1, writes())
	require.False(t, take(t, f, engine.Request{N: 1})[0].Granted)
	require.Equal(t, 1, writes())
}

// unchanged does what is done and requires that the key holds what it held.
func unchanged(t testing.TB, f *fair, do func()) {
	before, left := f.client.Dump(t.Context(), f.key).Val(), f.client.PTTL(t.Context(), f.key).Val() < 0
	do()
	require.Equal(t, before, f.client.Dump(t.Context(), f.key).Val())
	require.Equal(t, left, f.client.PTTL(t.Context(), f.key).Val() < 0)
}

// unreadable requires that the engine says so whatever it is asked, and leaves
// the key alone.
func unreadable(t testing.TB, f *fair) {
	unchanged(t, f, func() {
		_, err := f.Take(t.Context(), []engine.Request{{N: 1, MaxWait: engine.Forever}})
		assert.ErrorIs(t, err, engine.ErrState)
		_, err = f.Status(t.Context())
		assert.ErrorIs(t, err, engine.ErrState)
		assert.ErrorIs(t, f.Pause(t.Context(), time.Hour), engine.ErrState)
		assert.ErrorIs(t, f.GiveBack(t.Context(), []engine.Grant{{ID: "x", At: 1 << 52, N: 1}}), engine.ErrState)
	})
}

func TestWhatIsNoStateIsAnErrorAndNeverAGrant(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		for what, put := range map[string]func(rdb redis.UniversalClient, key, state string){
			"a list": func(rdb redis.UniversalClient, key, _ string) { rdb.RPush(ctx, key, "x") },
			"a hash": func(rdb redis.UniversalClient, key, _ string) { rdb.HSet(ctx, key, "x", 1) },
			"a sorted set": func(rdb redis.UniversalClient, key, _ string) {
				rdb.ZAdd(ctx, key, redis.Z{Score: 1, Member: "x"})
			},
			"nothing":  func(rdb redis.UniversalClient, key, _ string) { rdb.Set(ctx, key, "", time.Hour) },
			"a number": func(rdb redis.UniversalClient, key, _ string) { rdb.Set(ctx, key, 7, time.Hour) },
			"a megabyte": func(rdb redis.UniversalClient, key, _ string) {
				rdb.Set(ctx, key, strings.Repeat("x", 1<<20), time.Hour)
			},
			"no end": func(rdb redis.UniversalClient, key, state string) { rdb.Set(ctx, key, state, 0) },
			"a later version": func(rdb redis.UniversalClient, key, s string) {
				rdb.Set(ctx, key, "fair5"+s[5:], time.Hour)
			},
			"an earlier version": func(rdb redis.UniversalClient, key, _ string) {
				rdb.Set(ctx, key, "fair2 a 1 1700000000000000 3/1000000 1\n"+
					"1700000000000000 1 1000000 0 16 5:000000000000000000000\n", time.Hour)
			},
			"a long state": func(rdb redis.UniversalClient, key, s string) {
				line := s[strings.Index(s, "\n")+1:]
				rdb.Set(ctx, key, s+strings.Repeat(line, 1000), time.Hour)
			},
		} {
			f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
			queued(t, f, 8, 1)
			state := w.rdb.Get(ctx, f.key).Val()
			w.rdb.Del(ctx, f.key)
			put(w.rdb, f.key, state)
			unreadable(t, f)
			require.False(t, t.Failed(), what)
		}
	})
}

func TestAStateThatIsCutShortIsAnError(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second, Burst: 1})
		queued(t, f, 8, 1)
		state := w.rdb.Get(t.Context(), f.key).Val()
		for end := 0; end < len(state); end += redistest.Long(w.share/4, 1) {
			w.rdb.Set(t.Context(), f.key, state[:end], time.Hour)
			unreadable(t, f)
			require.False(t, t.Failed(), "%d of %d bytes", end, len(state))
		}
	})
}

// At some length of the queue its cells take one more digit each. Permits at the
// newest slot can bring that about, without a new cell.
func TestCellsThatOutgrowTheirDigitsMakeRoom(t *testing.T) {
	t.Parallel()
	const cells, mostLines = 57, 2995 // where the cells begin in a plain line; MOST_LINES in head.lua
	f, _ := realWorld(t).queue(t, engine.Quota{Permits: 1000, Per: time.Minute})
	for range 1800 {
		require.True(t, take(t, f, engine.Request{N: 500, MaxWait: engine.Forever})[0].Granted)
		state := f.client.Get(t.Context(), f.key).Val()
		_, lines, plain := strings.Cut(state, " - ")
		require.True(t, plain)
		last := strings.LastIndex(lines, "\n")
		require.LessOrEqual(t, last-cells, mostLines+len("\n"))
	}
}

// FuzzState puts anything into the key. The engine either says that it cannot
// read it and leaves it alone, or answers.
//
//	go test ./fair -fuzz FuzzState
func FuzzState(f *testing.F) {
	rdb := redistest.Standalone(f)
	const name = "fuzzed"
	var engines []*fair
	for _, q := range []engine.Quota{{Permits: 3, Per: time.Second}, {Permits: 100, Per: time.Minute, Burst: 1}} {
		e, err := New(engine.Config{Client: rdb, Name: name, Quota: q})
		require.NoError(f, err)
		engines = append(engines, e.(*fair))
	}
	for _, e := range engines {
		for _, count := range []int{1, 8, 300} {
			rdb.Del(f.Context(), e.key)
			queued(f, e, count, 1)
			state := rdb.Get(f.Context(), e.key).Val()
			f.Add(state)
			for i := 0; i < len(state); i += 1 + len(state)/redistest.Long(20, 40) {
				f.Add(state[:i])
				f.Add(state[:i] + "9" + state[i+1:])
				f.Add(state[:i] + "x" + state[i+1:])
				f.Add(state[:i] + "0" + state[i+1:])
				f.Add(state[:i] + "-" + state[i:])
			}
		}
	}
	const head = "fair4 3/1000000 - "
	const tail = "\n0000000 abcdefgh 500000ab                9 1700000000000000 1700000000000000"
	const log = "               0                0 "
	f.Add(head + log + "ga .:" + strings.Repeat("00000000000000090000000001", 200) + tail)
	f.Add(head + log + "ga .:             nan         1" + tail)
	f.Add(head + log + "ga .:            1e99      1e99" + tail)
	f.Add(head + log + "00 .:" + tail)
	f.Add(head + log + "zz .:" + strings.Repeat("9", 70) + tail)
	f.Add(head + "             nan              inf 95 .:" + tail)
	f.Add(head + log + "95 c             1e99             1e99 1e9:" + tail)
	f.Add(head + log + "95 .:\n0000000 abcdefgh 500000ab              nan              nan              nan")
	f.Add(head + log + "95 .:\n0000000 abcdefgh 500000ab 9007199254740992 4503599627370496 9007199254740991")
	f.Add("fair4 3/1000000 + 1 9007199254740991 4503599627370495 9007199254740991 9007199254740991 1\n1000000 0 9 " +
		log[1:] + "95 .:" + tail)
	f.Add("fair4 3/1000000 + 1 0 0 0 0 0\n0 0 9 " + log[1:] + "95 .:" + tail)
	f.Add("fair4 3/1000000 + 1 -9000000 0 0 0 0 5000000 0 0\n1000000 0 9 " + log[1:] + "95 .:" + tail)
	f.Add("fair4 3/1000000 + 1 -9 0 0 0 0 0 1700000001000000 2000000\n1000000 0 9 " + log[1:] + "95 .:" + tail)
	f.Add("fair4 3/1000000 + 1 -9 0 0 0 0 0 4503599627370495 4503599627370495\n1000000 0 9 " + log[1:] + "95 .:" + tail)
	f.Add("fair4 3/1000000 + 1 -9 0 0 0 0 5 1700000001000000 0\n1000000 0 9 " + log[1:] + "95 .:" + tail)
	f.Add("fair4 1/1 + 99 0 0 0 0 0\n1 0 1 " + log[1:] + "00 .:" + tail)
	f.Add("fair4 3/1000000 - " + log[1:] + "95 .:\nepochs 400000ab 9 9" + tail)
	f.Add("fair4 3/1000000 - " + log[1:] + "95 .:\nepochs 400000ab 9" + tail)
	f.Add("fair4 3/1000000 - " + log[1:] + "95 .:\nepochs" + strings.Repeat(" 400000ab 9 9", 9) + tail)

	f.Fuzz(func(t *testing.T, state string) {
		for _, e := range engines {
			require.NoError(t, rdb.Set(t.Context(), e.key, state, time.Minute).Err())
			status, err := e.Status(t.Context())
			if err == nil {
				require.GreaterOrEqual(t, status.Delay, time.Duration(0))
				require.GreaterOrEqual(t, status.Queued, 0)
				require.GreaterOrEqual(t, status.Available, 0)
			} else {
				require.ErrorIs(t, err, engine.ErrState)
			}
			if err := e.Look(t.Context()); err != nil {
				require.ErrorIs(t, err, engine.ErrState)
			}
			state := rdb.Get(t.Context(), e.key).Val() // Status writes what was lost
			answers, err := e.Take(t.Context(), []engine.Request{{N: 1, MaxWait: time.Hour}, {N: 1}})
			if err != nil {
				require.ErrorIs(t, err, engine.ErrState)
				require.Equal(t, state, rdb.Get(t.Context(), e.key).Val())
				continue
			}
			for _, a := range answers {
				require.GreaterOrEqual(t, a.Wait, time.Duration(0))
				// What is not digits is noticed when it is read, and giving
				// back reads more than taking.
				one := engine.Grant{ID: a.Grant.ID, At: a.Grant.At, N: 1, Made: a.Grant.Made}
				if err := e.GiveBack(t.Context(), []engine.Grant{one}); err != nil {
					require.ErrorIs(t, err, engine.ErrState)
				}
			}
		}
	})
}

// Whatever a window holds: as many moments as are kept apart, a backlog with
// gaps, epochs, the widest numbers.
func TestTheStateOfAWindowIsBounded(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, quota := range []engine.Quota{
		{Permits: 1, Per: time.Second},
		{Permits: 10, Per: time.Second},
		{Permits: 1000, Per: 10 * time.Second},
		{Permits: 1_000_000, Per: time.Hour},
		{Permits: 100_000_000, Per: 30 * day},
		{Permits: mostPermits, Per: longestPer},
	} {
		t.Run(fmt.Sprint(quota), func(t *testing.T) {
			t.Parallel()
			f, at := w.queue(t, quota)
			largest, now, share := int64(0), time.Duration(0), 100
			if quota.Per == longestPer { // slots are years within the next hundred
				share = 10_000
			}
			check := func() {
				largest = max(largest, w.rdb.StrLen(t.Context(), f.key).Val())
				require.LessOrEqual(t, largest, int64(mostState))
			}
			rng := rand.New(rand.NewPCG(1, 1))
			for range 3 {
				for range 12 {
					now += 100*time.Millisecond + time.Duration(rng.Int64N(int64(quota.Per)/200+1))
					at(now)
					moves(t, f)
					queued(t, f, 1, 1+rng.IntN(min(100, quota.Permits)))
					check()
				}
				for range redistest.Long(170, 600) {
					now += time.Duration(1 + rng.Int64N(200_000)).Truncate(time.Microsecond)
					at(now)
					queued(t, f, 1, max(1, rng.IntN(quota.Permits/share+1)))
					check()
				}
				grants := queued(t, f, 400, max(1, quota.Permits/share))
				check()
				pause(t, f, quota.Per/10+time.Millisecond)
				check()
				for some := range slices.Chunk(shuffled(grants, now)[:200], 20) {
					giveBack(t, f, some...)
					check()
				}
			}
			if quota.Permits == 1 {
				for some := range slices.Chunk(shuffled(queued(t, f, 15_000, 1), now)[:7_000], 1000) {
					giveBack(t, f, some...)
					check()
				}
			}
			t.Logf("%d bytes", largest)
		})
	}
}

func TestASlotThatNoStateCanHoldIsAnErrorAndLeavesTheQueueAsItIs(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 1, Per: longestPer})
		for {
			before := w.rdb.Get(t.Context(), f.key).Val()
			_, err := f.Take(t.Context(), []engine.Request{{N: 1, MaxWait: engine.Forever}})
			if err != nil {
				require.ErrorIs(t, err, engine.ErrState)
				require.Equal(t, before, w.rdb.Get(t.Context(), f.key).Val())
				break
			}
		}
		require.False(t, take(t, f, engine.Request{N: 1})[0].Granted, "it can still be read")
	})
}
