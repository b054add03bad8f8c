package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/grid"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAWindowThatBecomesEmptyIsNotCrowdedAnyMore(t *testing.T) {
	t.Parallel()
	q, now := NewQueue([]Window{{300, second}}), int64(1_700_000_000*second)
	for i := range int64(400) {
		q.Take(now+i*4000, 1, 0)
	}
	require.Positive(t, q.logs[0].crowded)
	now += 5 * second
	for i := range int64(3) {
		slot, _ := q.Take(now+i*1000, 100, 0)
		require.Equal(t, now+i*1000, slot)
	}
	require.Equal(t, now+second+1000, q.Earliest(now+2000, 101), "the second hundred do not wait for the third")
}

func TestAHugeRowCoarsensBeforeItIsSpread(t *testing.T) {
	t.Parallel()
	windows := []Window{{1, second}, {1000, day}}
	l := &windowLog{Window: windows[1], grid: grid.Of(grid.Plain(windows))[1], interval: second, burst: 1}
	const row = 100_000_000
	l.spread(0, row*second, row)
	require.Positive(t, l.behind.level)
	require.LessOrEqual(t, len(l.behind.counts), maxBuckets)
	sum := int64(0)
	for _, n := range l.behind.counts {
		sum += n
	}
	require.EqualValues(t, row, sum)
}

// What unfolds from a bucket and folds again may be in a later one: of these
// windows the returns of some seeds found nothing where they were granted.
func TestEveryReturnFindsItsPermits(t *testing.T) {
	t.Parallel()
	for _, windows := range [][]Window{Windows(3, second, 1), Windows(7, second, 2), {{2, second}, {1000, day}}} {
		fewest := min(windows[0].Permits, windows[1].Permits)
		for seed := range uint64(redistest.Long(4, 60)) {
			rng := rand.New(rand.NewPCG(seed, 6))
			q, now, held := NewQueue(windows), int64(beginning), []Turn{}
			largest := max(1, fewest/[]int{1, 3, 20, 1000}[rng.IntN(4)])
			for range 30 {
				for range rng.IntN(1 + rng.IntN(600)) {
					n := 1 + rng.IntN(largest)
					slot, _ := q.Take(now, n, math.MaxInt64)
					held = append(held, Turn{slot, n})
				}
				for range rng.IntN(len(held) + 1) {
					i, last := rng.IntN(len(held)), len(held)-1
					turn := held[i]
					held[i], held = held[last], held[:last]
					require.Equal(t, turn.Slot > now, q.Release(now, turn), "seed %d of %v", seed, windows)
				}
				now += rng.Int64N(20 * windows[0].Length)
			}
		}
	}
}
