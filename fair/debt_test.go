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

// Joins, partial leaves and time, in any mix; then all leave.
func TestWhateverMixOfJoinsAndLeavesLeavesLittleOfItsBacklog(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for seed := range uint64(redistest.Long(10, 400)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			text := []string{
				"1/1s", "10/1s", "10/1s burst 1", "258/129s burst 2", "20/1s 100/2m", "1000/1m burst 100", "1/1s 50/1m",
			}[seed%7]
			f, at := w.queue(t, quotas(t, text)...)
			var held []engine.Grant
			now, backlog := time.Duration(0), time.Duration(0)
			leave := func(gone []engine.Grant) {
				giveBack(t, f, gone...)
				left := map[engine.Grant]int{} // turns of one slot are alike
				for _, g := range gone {
					left[g]++
				}
				held = slices.DeleteFunc(held, func(g engine.Grant) bool { left[g]--; return left[g] >= 0 })
			}
			ahead := func() []engine.Grant {
				grants := shuffled(held, now)
				rng.Shuffle(len(grants), func(i, j int) { grants[i], grants[j] = grants[j], grants[i] })
				return grants
			}
			for range 6 + rng.IntN(10) {
				switch rng.IntN(4) {
				case 0, 1:
					held = append(held, queued(t, f, 1+rng.IntN(400), 1)...)
				case 2:
					grants := ahead()
					leave(grants[:rng.IntN(len(grants)+1)])
				case 3:
					now += time.Duration(rng.Float64() * 0.7 * float64(wait(t, f))).Truncate(time.Microsecond)
					at(now)
				}
				backlog = max(backlog, wait(t, f))
			}
			leave(ahead())
			used := model.Exact{Windows: modelsOf(f.windows)}
			for _, g := range held {
				used.Hold(model.Turn{Slot: g.At, N: 1})
			}
			micros := beginning.Add(now).UnixMicro()
			debt := wait(t, f) - microseconds(used.Earliest(micros, 1)-micros)
			require.GreaterOrEqual(t, debt, time.Duration(0), "no credit")
			most := max(backlog/16, microseconds(f.windows[0].Length)/64)
			require.LessOrEqual(t, debt, most, "%v, of a backlog of %v", text, backlog)
			require.LessOrEqual(t, w.rdb.StrLen(t.Context(), f.key).Val(), int64(mostState))
		})
	}
}
