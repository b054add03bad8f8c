package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExactIsTheDefinition(t *testing.T) {
	t.Parallel()
	e := &Exact{Windows: []Window{{3, 200}, {4, 1000}}}
	for _, want := range []struct {
		now  int64
		n    int
		slot int64
	}{{0, 1, 0}, {0, 1, 0}, {10, 1, 10}, {10, 1, 200}, {450, 1, 1000}, {450, 3, 1200}} {
		slot, granted := e.Take(want.now, want.n, 10_000)
		require.True(t, granted)
		require.Equal(t, want.slot, slot)
	}
	require.NoError(t, Strict(e.Windows, e.Held))
	_, granted := e.Take(450, 1, 100)
	require.False(t, granted)

	require.True(t, e.Release(450, Turn{1200, 3}))
	require.False(t, e.Release(450, Turn{1200, 3}), "once")
	require.False(t, e.Release(450, Turn{200, 1}), "it has passed")
	require.Panics(t, func() { e.Hold(Turn{900, 1}) }, "before one that is held")
	e.Hold(Turn{1000, 3})
	require.ErrorContains(t, Strict(e.Windows, e.Held), "more than 3 permits")
}

func TestWindowsOfAQuota(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Window{{10, second}}, Windows(10, second, 0))
	require.Equal(t, []Window{{10, second}}, Windows(10, second, 10))
	require.Equal(t, []Window{{3, second}, {1, 333_333}}, Windows(3, second, 1), "rounded down")
}
