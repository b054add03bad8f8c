package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func (q *Queue) clone() *Queue {
	c := &Queue{clock: q.clock, lost: q.lost}
	for _, l := range q.logs {
		d := *l
		d.cells, d.behind.counts = slices.Clone(l.cells), slices.Clone(l.behind.counts)
		c.logs = append(c.logs, &d)
	}
	return c
}

// debt is how much longer a caller has to wait than it had to, if all leave who
// wait after some more time, in any order.
func (g *played) debt() int64 {
	all := played{T: g.T, plan: g.plan, server: g.server, queue: g.queue.clone()}
	all.held = &Exact{g.windows, slices.Clone(g.held.Held)}
	if k := len(all.held.Held); k > 0 && g.rng.IntN(2) == 0 {
		all.server += int64(g.rng.Float64() * float64(all.queue.Wait(all.held.Held[k-1].Slot)))
	}
	all.now = all.queue.Now(all.server)
	turns := slices.Clone(all.held.Held)
	g.rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	for _, turn := range turns {
		all.giveBack(turn)
	}
	return all.queue.Earliest(all.server, 1) - all.held.Earliest(all.queue.Now(all.server), 1)
}

func TestWhenAllLeaveLittleOfTheBacklogStays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Long(6, 1_000)) {
		step := 0
		anyPlan(seed).play(t, func(g *played) {
			if step++; step%150 > 0 {
				return
			}
			debt := g.debt()
			require.GreaterOrEqual(t, debt, int64(0), "no credit")
			most := max(g.longest/100, Longest(g.windows)/64)
			require.LessOrEqual(t, debt, most, "%+v, of a backlog of %d", g.plan, g.longest)
		})
	}
}

// A queue that is never empty, and of which somebody leaves now and then: all
// that has ever stood in it is much longer than what stands in it.
func TestWhatHasPassedCoarsensNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		windows []Window
		pitch   int64 // from one turn to the next
		most    int64 // that may stay, of a backlog of 3,000 turns
	}{
		{[]Window{{1, second}}, second, 0},
		{Windows(10, second, 1), second / 10, 3000 * second / 10 / 100},
		{[]Window{{1, second}, {1000, day}}, second, day / 64},
	} {
		q, now := NewQueue(c.windows), int64(beginning)
		turns := queued(q, now, 3000)
		for range 20 {
			now = turns[1300].Slot
			turns = append(turns[1300:], queued(q, now, 1300)...)
			last := len(turns) - 1
			q.Release(now, turns[last])
			turns = append(turns[:last], queued(q, now, 1)...)
		}
		now = turns[1500].Slot + c.pitch/2
		used := turns[1500].Slot
		rng := rand.New(rand.NewPCG(1, 1))
		rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, turn := range turns {
			q.Release(now, turn)
		}
		require.LessOrEqual(t, q.Earliest(now, 1)-(used+c.pitch), c.most, "%v", c.windows)
	}
}

// Cells of long windows with many permits are wide, and leave the histogram few
// bytes. What is over 1 % here is in docs/LIMITS.md.
func TestWideCellsLeaveRoomForTheHistogram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window Window
		most   float64 // % of the backlog that may stay
	}{
		{Window{1000, 60 * second}, 1},
		{Window{10_000, day}, 1},
		{Window{100_000, 60 * second}, 1},
		{Window{1_000_000, hour}, 1},
		{Window{1_000_000, day}, 1.6},
		{Window{10_000_000, day}, 1.6},
	} {
		for _, distinct := range []int{90, 110, 125, 129, 170} {
			q, now, n := NewQueue([]Window{c.window}), int64(beginning), c.window.Permits/distinct
			take := func() Turn {
				slot, _ := q.Take(now, n, math.MaxInt64)
				return Turn{slot, n}
			}
			for range distinct {
				take()
				now += c.window.Length * 7 / 8 / int64(distinct)
			}
			var turns []Turn
			for range 20 * distinct {
				turns = append(turns, take())
			}
			backlog := turns[len(turns)-1].Slot - now
			rng := rand.New(rand.NewPCG(1, 1))
			rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
			at := now + backlog/2
			used := at - c.window.Length // of the last who went
			for _, turn := range turns {
				if !q.Release(at, turn) {
					used = max(used, turn.Slot)
				}
			}
			debt := q.Earliest(at, c.window.Permits) - (used + c.window.Length)
			require.LessOrEqual(t, float64(debt)*100/float64(backlog), c.most,
				"%v, %d slots a window", c.window, distinct)
		}
	}
}

// Joins, partial leaves and time: what was looked for by climbing.
func TestAQueueAtOnePermitPerPerLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, count := range []int{300, 4000, 10_000} {
		for _, windows := range [][]Window{{{1, second}}, {{1, 333_333}}, {{1, 7_919_001}}} {
			q := NewQueue(windows)
			turns := queued(q, beginning, count)
			for i := 0; i < count; i += 2 {
				q.Release(beginning, turns[i])
			}
			rng := rand.New(rand.NewPCG(1, 1))
			rng.Shuffle(count, func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
			now := int64(beginning) + 60*windows[0].Length + windows[0].Length/2
			for _, turn := range turns {
				q.Release(now, turn)
			}
			// Of the first 61 the odd ones have gone: the last of them half a
			// length ago, a length before the one that left.
			require.Equal(t, now, q.Earliest(now, 1), "%d of %v", count, windows)
			require.LessOrEqual(t, q.logs[0].behind.bytes(), maxBytes)
		}
	}
}

// Beyond what bits can tell, a bucket is several turns, but of a thousand.
func TestAVeryLongQueueAtOnePermitPerPerLeavesLittle(t *testing.T) {
	t.Parallel()
	count := redistest.Long(30_000, 300_000)
	q := NewQueue([]Window{{1, second}})
	turns := queued(q, beginning, count)
	for i := 0; i < count; i += 2 {
		q.Release(beginning, turns[i])
	}
	now := int64(beginning) + int64(count)/3*second
	for _, turn := range turns {
		q.Release(now, turn)
	}
	require.LessOrEqual(t, q.Earliest(now, 1)-now, int64(count)*second/500)
}

func queued(q *Queue, now int64, count int) (turns []Turn) {
	for range count {
		slot, _ := q.Take(now, 1, math.MaxInt64)
		turns = append(turns, Turn{slot, 1})
	}
	return turns
}
