package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEarliest(t *testing.T) {
	t.Parallel()
	q := &Queue{Units: [][]Window{{{3, 200}, {4, 1000}}}}
	for _, want := range []struct {
		now  int64
		n    int
		slot int64
	}{{0, 1, 0}, {0, 1, 0}, {10, 1, 10}, {10, 1, 200}, {450, 1, 1000}, {450, 3, 1200}} {
		slot, granted := q.Take(want.now, 10_000, want.n)
		require.True(t, granted)
		require.Equal(t, want.slot, slot)
	}
	require.NoError(t, Strict(q.Units[0], q.Slots(0)))
	_, granted := q.Take(450, 100, 1)
	require.False(t, granted)

	q.GiveBack(1200, 3)
	q.GiveBack(1200, 3)
	require.EqualValues(t, 1000, q.Tail())
	q.Owe(3)
	require.ErrorContains(t, Strict(q.Units[0], q.Slots(0)), "4 permits")
	require.EqualValues(t, 2000, q.Earliest(450, 1))
}

func TestUnitsShareOneTail(t *testing.T) {
	t.Parallel()
	q := &Queue{Units: [][]Window{{{2, 100}}, {{50, 1000}}}}
	for i, want := range []int64{0, 1000, 1000, 1100} {
		slot, _ := q.Take(0, 1e6, 1, []int{50, 1, 0, 0}[i])
		require.Equal(t, want, slot)
	}
}

func TestPauseLetsTheClockStandStill(t *testing.T) {
	t.Parallel()
	q := &Queue{Units: [][]Window{{{1, 100}}}}
	slot, _ := q.Take(0, 1e6, 1)
	q.Pause(40, 1000)
	q.Pause(50, 500)
	require.EqualValues(t, 960, q.Comes(slot), "nobody's slot moves on the clock")
	require.EqualValues(t, 1060, q.Comes(q.Earliest(50, 1)))
	q.Resume(90)
	require.EqualValues(t, 150, q.Comes(q.Earliest(90, 1)))
}

func TestWindowsOfAQuota(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Window{{10, 1e6}}, Windows(10, 1e6, 0))
	require.Equal(t, []Window{{10, 1e6}}, Windows(10, 1e6, 10))
	require.Equal(t, []Window{{3, 1e6}, {1, 333_334}}, Windows(3, 1e6, 1), "rounded up")
}
