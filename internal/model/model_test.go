package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The definition is held against engine fair by package verify. Here is what that
// cannot notice: a window that is too full.
func TestAWindowThatIsTooFullIsNotStrict(t *testing.T) {
	t.Parallel()
	windows := Windows(3, 1000, 2)
	require.Equal(t, []Window{{3, 1000}, {2, 667}}, windows, "rounded up")
	require.NoError(t, Strict(windows, []int64{0, 0, 667, 1000, 1667}))
	require.ErrorContains(t, Strict(windows, []int64{0, 0, 666, 1000}), "3 permits within 667 µs, at most 2")
	require.ErrorContains(t, Strict(windows, []int64{0, 1, 900, 999}), "4 permits within 1000 µs, at most 3")
}
