package fair

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// eitherFirst has two limiters look after a loss, each of them first once, and
// requires turns of both to be as far apart as the quota wants it.
func eitherFirst(t *testing.T, apart time.Duration, history func(*testing.T, world) (a, b *fair, held []engine.Grant)) {
	for first, swapped := range map[string]bool{"the one asks first": false, "the other asks first": true} {
		t.Run(first, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				a, b, held := history(t, w)
				if swapped {
					a, b = b, a
				}
				dues(t, a, nil)
				dues(t, b, nil)
				all := dues(t, a, held)
				require.Equal(t, all, dues(t, b, held), "both know the same")
				for i := range all[1:] {
					require.GreaterOrEqual(t, all[i+1]-all[i], apart, "turn %d", i+1)
				}
			})
		})
	}
}

// A pause is lost of which one limiter has not heard. Their turns stay as far
// apart as they were.
func TestALostPausePutsOffTheTurnsOfAll(t *testing.T) {
	t.Parallel()
	eitherFirst(t, time.Second, func(t *testing.T, w world) (a, b *fair, held []engine.Grant) {
		a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		b = a.joins(t, a.quotas...)
		for range 6 {
			held = append(append(held, queued(t, a, 1, 1)...), queued(t, b, 1, 1)...)
		}
		at(1200 * time.Millisecond)
		pause(t, a, 3*time.Second)
		at(1500 * time.Millisecond)
		require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
		at(1600 * time.Millisecond)
		return a, b, slices.DeleteFunc(held, func(g engine.Grant) bool { return g.At < held[2].At })
	})
}

// The queue that is restored is the one that was lost: what is granted from then
// on comes behind all that any limiter knows of it.
func TestAQueueThatWasLostGoesOn(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, engine.Quota{Permits: 2, Per: time.Second})
		b := a.joins(t, a.quotas...)
		lost := queued(t, a, 5, 1)                 // up to 2 s
		lost = append(lost, queued(t, b, 3, 1)...) // up to 3 s
		require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
		at(100 * time.Millisecond)
		next := queued(t, a, 1, 1)[0]
		require.Equal(t, lost[0].ID, next.ID)
		require.GreaterOrEqual(t, next.At, lost[4].At+time.Second.Microseconds())
		later := queued(t, b, 1, 1)[0]
		require.GreaterOrEqual(t, later.At, lost[7].At+time.Second.Microseconds())
		giveBack(t, a, lost...)
		giveBack(t, b, lost...)
		require.Equal(t, later.At, queued(t, b, 1, 1)[0].At, "what was lost frees nothing")
	})
}

// What was lost was granted under a quota that lets fewer go together than the
// one that holds now.
func TestWhatWasLostCountsInWindowsOfMorePermits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "1/100ms")...)
		lost := queued(t, f, 20, 1) // up to 1.9 s
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(50 * time.Millisecond)
		require.NoError(t, f.Look(t.Context()))
		next := queued(t, f.joins(t, quotas(t, "10/1s")...), 1, 1)[0]
		require.Equal(t, lost[19].At+time.Second.Microseconds(), next.At)
	})
}

// A reset is lost of which one limiter has not heard. Whoever asks first, turns
// that were reset count no more once the other has asked.
func TestALostResetStaysOne(t *testing.T) {
	for first, swapped := range map[string]bool{"who has reset": false, "who has not heard of it": true} {
		t.Run(first, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
				b := a.joins(t, a.quotas...)
				old := queued(t, b, 9, 1)
				queued(t, a, 1, 1)
				at(100 * time.Millisecond)
				require.NoError(t, a.Reset(t.Context()))
				at(150 * time.Millisecond)
				valid := queued(t, a, 9, 1)
				require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
				at(200 * time.Millisecond)
				order := []*fair{a, b}
				if swapped {
					order = []*fair{b, a, b}
				}
				ofA, ofB := hears(a), hears(b)
				for _, f := range order {
					require.NoError(t, f.Look(t.Context()))
				}
				heard := last(t, ofB)
				require.True(t, heard.Reset && heard.Queue != old[0].ID, "turns before the reset are void")
				heard = last(t, ofA)
				require.True(t, !heard.Reset || heard.Queue == valid[0].ID, "those after it are not")
				require.GreaterOrEqual(t, queuedWait(t, b), 8900*time.Millisecond, "and count")
			})
		})
	}
}
