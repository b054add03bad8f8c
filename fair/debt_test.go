package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

const day = 24 * time.Hour

// shuffled returns the grants that still lie ahead at the moment, in random
// order.
func shuffled(grants []engine.Grant, now time.Duration) []engine.Grant {
	ahead := slices.DeleteFunc(slices.Clone(grants),
		func(g engine.Grant) bool { return g.At <= beginning.Add(now).UnixMicro() })
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(ahead), func(i, j int) { ahead[i], ahead[j] = ahead[j], ahead[i] })
	return ahead
}

// What waiters leave behind who all leave: at most 1 % of the backlog as it was
// at its longest, however much of it has passed since; or a 64th of the shortest
// Per.
func TestALongQueueOfWhichAllLeaveKeepsLittleOfItsBacklog(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, c := range []struct {
		quotas string
		n      int
	}{
		{"1/1s", 1},
		{"10/1s", 1},
		{"10/1s burst 1", 1},
		{"20/1s 100/2m", 1},
		{"1/1s 1000/24h", 1},
		{"1000/1m", 1},
		{"100000/1s", 7_777},
	} {
		for _, count := range []int{3_600, 20_000}[:redistest.Long(1, 2)] {
			for _, passed := range []float64{0, 0.5, 0.9} {
				if count > 10_000 && passed != 0.5 {
					continue
				}
				t.Run(fmt.Sprintf("%v/%d/%v", c.quotas, count, passed), func(t *testing.T) {
					t.Parallel()
					f, at := w.queue(t, quotas(t, c.quotas)...)
					grants := queued(t, f, count, c.n)
					backlog := wait(t, f)
					now := time.Duration(passed * float64(backlog)).Truncate(time.Microsecond)
					at(now)

					used, micros := model.Exact{Windows: modelsOf(f.windows)}, beginning.Add(now).UnixMicro()
					for _, g := range grants {
						if g.At <= micros {
							used.Hold(model.Turn{Slot: g.At, N: g.N})
						}
					}
					earliest := used.Earliest(micros, 1)

					giveBack(t, f, shuffled(grants, now)...)
					debt := wait(t, f) - microseconds(earliest-micros)
					assert.GreaterOrEqual(t, debt, time.Duration(0), "no credit")
					assert.LessOrEqual(t, debt, max(backlog/100, microseconds(f.windows[len(f.windows)-1].Length)/64),
						"of a backlog of %v", backlog)
					require.LessOrEqual(t, w.rdb.StrLen(t.Context(), f.key).Val(), int64(mostState))
				})
			}
		}
	}
}

// A row of callers that each take one permit stands in one cell. It is far too
// long to merge with one of the many slots behind it: some of it would pass,
// and count at its end.
func TestALongRowDoesNotMergeWithWhatStandsBehindIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, row := range []int{580, 2020} {
			f, at := w.queue(t, quotas(t, "10/1s")...)
			held := append(queued(t, f, row, 1), queued(t, f, 300, 6)...)
			backlog := wait(t, f)
			at(5 * time.Second)
			giveBack(t, f, shuffled(held, 5*time.Second)...)
			require.LessOrEqual(t, status(t, f).Delay, backlog*6/100)
		}
	})
}

// Nobody asks under the quotas of a long row any more. Then each cell counts whole.
func TestALongRowOfOtherQuotasIsCut(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		leave := func(t *testing.T, f *fair, at func(time.Duration), held []engine.Grant) {
			t.Helper()
			backlog := wait(t, f)
			at(90 * time.Second)
			giveBack(t, f, shuffled(held, 90*time.Second)...)
			require.LessOrEqual(t, status(t, f).Delay, backlog*6/100)
		}
		t.Run("the log has no room for each of its callers", func(t *testing.T) {
			f, at := w.stored(t)
			writes(t, f, "3/1s")
			held := queued(t, f, 2_400, 1)
			for inspected(t, f).Cells < 160 {
				held = append(held, queued(t, f, 3, 1)...)
			}
			writes(t, f, "50/1s")
			require.NoError(t, f.Look(t.Context()))
			leave(t, f, at, held)
		})
		t.Run("one of a longer Per was told of it by a pause", func(t *testing.T) {
			f, at := w.queue(t, quotas(t, "3/1s")...)
			other := f.joins(t, quotas(t, "100/10s")...)
			held := queued(t, f, 2_700, 1)
			pause(t, other, 10*time.Millisecond)
			leave(t, f, at, append(held, queued(t, other, 1, 1)...))
		})
		t.Run("cells that have left would be rows of hours", func(t *testing.T) {
			f, at := w.stored(t)
			writes(t, f, "100000/1s")
			for i := range 6 {
				at(time.Duration(i) * 600 * time.Millisecond)
				queued(t, f, 1, 50_000)
			}
			writes(t, f, "1/1s")
			at(3500 * time.Millisecond)
			held := queued(t, f, 30, 1)
			at(10 * time.Second)
			held = append(held, queued(t, f, 900, 1)...)
			writes(t, f, "50/1s")
			leave(t, f, at, append(held, queued(t, f, 1, 1)...))
		})
	})
}

// Random arrivals at more than the quota fill more distinct moments than the
// log keeps apart. What that costs it costs once, and not in every window. If
// the windows fit no common grid, it costs up to a thousandth of the quota.
func TestASaturatedQueueUsesItsQuota(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	all := []struct {
		quotas string
		share  int64 // of the longest Per by which turns come late at most
	}{
		{"1000/1s", 64},
		{"400/10s burst 30", 16}, // no common grid
		{"1000/1m burst 20 20/1s burst 5", 32},
		{"400/1.300007s", 64},
		{"400/10s burst 4", 32},
		{"400/10.05s burst 4", 32}, // with a guard
		{"20/1s 1000/1m", 32},
		{"1000/10s burst 30", 16},
		{"1000/61.7s 170/7.3s", 16},
		{"2000/61.7s 900/23.1s 300/7.3s", 16},
		{"5000/1000s 900/170s 300/47s 150/19s", 16},
	}
	for _, c := range all[:redistest.Long(2, len(all))] {
		for _, load := range []float64{1.1, 3} {
			t.Run(fmt.Sprint(c.quotas, load), func(t *testing.T) {
				t.Parallel()
				f, _ := w.queue(t, quotas(t, c.quotas)...)
				s := saturated{f: f, rng: rand.New(rand.NewPCG(1, 9)), load: load}
				s.exact.Windows = modelsOf(f.windows)
				laps := redistest.Long(10, 50)
				for range laps {
					s.lap(t)
				}
				require.NoError(t, model.Strict(modelsOf(f.windows), s.turns))
				per := f.windows[0].Length
				late, most := s.late[laps-1], slices.Max(s.late)
				share := 64 / float64(per)
				t.Logf("late by %.2f 64ths of Per at most, %.2f in the end", share*float64(most), share*float64(late))
				require.LessOrEqual(t, most, per/c.share)
				require.LessOrEqual(t, float64(late), 0.001*float64(per)*float64(laps)+float64(per)/64, "99.9 % are used")
			})
		}
	}
}

// saturated is a queue that more want than it lets through, beside the exact
// one that the same callers use.
type saturated struct {
	f     *fair
	rng   *rand.Rand
	load  float64
	now   float64
	exact model.Exact
	turns []model.Turn
	late  []int64 // by which turns came at most, lap by lap
}

// lap is as many requests as the longest window has permits.
func (s *saturated) lap(t *testing.T) {
	mean := 0.0
	for _, w := range s.f.windows {
		mean = max(mean, float64(w.Length)/float64(w.Permits)/s.load)
	}
	var arrivals []arrival
	for n := 0; n < s.f.windows[0].Permits; n++ {
		r := engine.Request{N: 1, MaxWait: engine.Forever}
		if s.f.most > 3 && s.rng.IntN(4) == 0 {
			r.N += s.rng.IntN(3)
			n += r.N - 1
		}
		s.now += s.rng.ExpFloat64() * mean * float64(r.N)
		arrivals = append(arrivals, arrival{microseconds(int64(s.now)), r})
	}
	late := int64(0)
	for i, g := range arrive(t, s.f, arrivals) {
		slot, _ := s.exact.Take(beginning.Add(arrivals[i].at).UnixMicro(), g.N, 1<<52)
		require.GreaterOrEqual(t, g.At, slot, "never early")
		late = max(late, g.At-slot)
		s.turns = append(s.turns, model.Turn{Slot: g.At, N: g.N})
	}
	s.late = append(s.late, late)
}

// countsBytes adds up the bytes that a script writes.
const countsBytes = `local redis = setmetatable({}, { __index = function(_, how)
	if how ~= 'call' and how ~= 'pcall' then return redis[how] end
	return function(...)
		local bytes, words = 0, { ... }
		if words[1] == 'PSETEX' or words[1] == 'SETRANGE' or words[1] == 'PEXPIRE' then
			for i = 3, #words do bytes = bytes + #tostring(words[i]) end -- behind the key
			redis.call('INCRBY', KEYS[1] .. ':written', bytes)
			redis.call('INCR', KEYS[1] .. ':writes')
		end
		return redis[how](...)
	end
end, __tostring = function() return tostring(redis) end })
`

// sizes are quotas of one to four windows, none of which another one implies.
var sizes = []string{
	"1/1s", "1000/10s", "1000000/1h burst 70001", "1000000000/87600h", "1000/1m 20/1s",
	"2000/61.7s 900/23.1s burst 301", "5000/1000s 900/170s 300/47s 150/19s",
}

func TestAGrantWritesAFewBytes(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, text := range sizes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			f, at := w.queue(t, quotas(t, text)...)
			f.scripts = f.scripts.behind(countsBytes)
			rng, now, grants := rand.New(rand.NewPCG(1, 2)), 0.0, redistest.Long(600, 2000)
			pace := 0.0
			for _, window := range f.windows {
				pace = max(pace, float64(window.Length)/float64(window.Permits))
			}
			written := func(what string) int { n, _ := w.rdb.Get(t.Context(), f.key+what).Int(); return n }
			crowd := func(count int) {
				for range count {
					now += rng.ExpFloat64() * pace
					at(microseconds(int64(now)))
					queued(t, f, 1, 1)
				}
			}
			crowd(grants / 2) // nothing merges at first
			bytes, writes := written(":written"), written(":writes")
			crowd(grants)
			bytes, writes = written(":written")-bytes, written(":writes")-writes
			t.Logf("%d bytes a grant in %.1f writes", bytes/grants, float64(writes)/float64(grants))
			require.LessOrEqual(t, bytes/grants, 250)
			require.LessOrEqual(t, w.rdb.StrLen(t.Context(), f.key).Val(), int64(3686), "3.6 KB")
		})
	}
}
