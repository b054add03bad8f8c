package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// A state is lost now and then, or is an older one, and whoever was told of the
// newest turn calls next: all turns ever granted keep every window.
func TestNoLossExceedsAWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Long(50, 5000)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		windows := anyWindows[rng.IntN(len(anyWindows))]
		q, now, newest := NewQueue(windows), int64(beginning), int64(0)
		var granted []Turn
		type snapshot struct {
			queue *Queue
			known int // turns
		}
		snapshots := []snapshot{{NewQueue(windows), 0}}
		for range 200 {
			now += rng.Int64N(2) * rng.Int64N(windows[0].Length)
			switch rng.IntN(20) {
			case 0:
				q = NewQueue(windows)
				q.Lose(newest)
			case 1:
				old := snapshots[max(0, len(snapshots)-1-rng.IntN(5))]
				q = old.queue.clone()
				q.advance(now)
				q.Recover(len(granted)-old.known, newest)
			}
			if slot, ok := q.Take(now, 1, rng.Int64N(3)*windows[0].Length); ok {
				granted, newest = append(granted, Turn{slot, 1}), max(newest, slot)
			}
			snapshots = append(snapshots, snapshot{q.clone(), len(granted)})
		}
		require.NoError(t, Strict(windows, granted), "seed %d: %v", seed, windows)
	}
}

func TestWhatWasLostCountsAsFull(t *testing.T) {
	t.Parallel()
	q := NewQueue([]Window{{3, second}, {9, 10 * second}})
	q.Lose(beginning + second)
	require.EqualValues(t, beginning+11*second, q.Earliest(beginning, 1))
	slot, granted := q.Take(beginning, 1, math.MaxInt64)
	require.True(t, granted)
	require.EqualValues(t, beginning+11*second, slot)
	require.EqualValues(t, beginning+30*second, q.Earliest(beginning+30*second, 3), "until it has left every window")
}

func TestRecoveredRowsAreGivenBackTurnByTurn(t *testing.T) {
	t.Parallel()
	q := NewQueue([]Window{{1, second}})
	turns := queued(q, beginning, 3600)
	q.Recover(2, turns[3599].Slot+2*second)
	for _, turn := range turns[1000:] {
		require.True(t, q.Release(beginning, turn))
	}
	require.EqualValues(t, beginning+3602*second, q.Earliest(beginning, 1), "the two are held by someone")
}
