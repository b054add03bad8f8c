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
	for seed := range uint64(redistest.Long(16, 300)) {
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
