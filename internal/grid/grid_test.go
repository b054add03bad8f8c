package grid_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/grid"
	"github.com/fairlimit/fairlimit/internal/model"
)

const (
	second = 1_000_000
	year   = 365 * 24 * 3600 * second
)

// joined are the windows of several quotas.
func joined(quotas ...[]grid.Window) []grid.Window { return slices.Concat(quotas...) }

// quota is the windows of one.
func quota(permits int, per int64, burst int) (windows []grid.Window) {
	for _, w := range model.Windows(permits, per, burst) {
		windows = append(windows, grid.Window(w))
	}
	return windows
}

// longest is the length of the longest window.
func longest(windows []grid.Window) (length int64) {
	for _, w := range windows {
		length = max(length, w.Length)
	}
	return length
}

func TestNoCellIsLongerThanA64thOfItsWindow(t *testing.T) {
	t.Parallel()
	for _, windows := range [][]grid.Window{
		{{1000, 10 * second}},
		{{1000, 10_000_007}},
		quota(1000, 10*second, 100),
		quota(1000, 10_000_019, 5),
		quota(400, 10_019, 2),
		joined(quota(20, second, 5), quota(1000, 600*second, 100)),
		joined(quota(30, second, 0), quota(60, 3*second, 0), quota(2000, 10*year, 7)),
		joined(quota(1, 10*year, 0), quota(1_000_000_000, second, 0)),
	} {
		period := longest(windows)
		for i, cells := range grid.Cells(windows) {
			require.LessOrEqual(t, cells, period, "%v", windows)
			if cells < period { // nothing is finer than a microsecond
				perLength := float64(cells) * float64(windows[i].Length) / float64(period)
				require.GreaterOrEqual(t, perLength, 63.9, "%v", windows)
			}
		}
	}
}

func TestTheCellsOfAShorterWindowRefineThoseOfALonger(t *testing.T) {
	t.Parallel()
	windows := joined(quota(30, second, 0), quota(60, 3*second, 0), quota(2000, 10*year, 7))
	counts := grid.Cells(windows)
	for i, w := range windows {
		for j, longer := range windows {
			if w.Length < longer.Length {
				require.Zero(t, counts[i]%counts[j], "%v %v", windows, counts)
			}
		}
	}
}

func TestALengthIsAWholeNumberOfCells(t *testing.T) {
	t.Parallel()
	for _, windows := range [][]grid.Window{
		quota(1000, 10*second, 100),
		quota(1000, 10*second, 30), // 100 cells, 3 of them a burst
		joined(quota(20, second, 0), quota(1000, 60*second, 0)),
		joined(quota(100, second, 10), quota(1000, 11*second, 100)),
		quota(1200, 10*second, 300),
	} {
		for _, cells := range grid.Cells(windows) {
			for _, w := range windows {
				require.Zero(t, w.Length*cells%longest(windows), "%v %v", windows, cells)
			}
		}
	}
}

func TestNoSetOfWindowsTakesLong(t *testing.T) {
	t.Parallel()
	for _, windows := range [][]grid.Window{
		quota(1_000_000_000, year, 1),
		joined(quota(1000, 24*3600*second, 0), quota(1, 1000, 0)),
		joined(quota(1000, 100*year, 0), quota(1, 1, 0)),
	} {
		require.Len(t, grid.Cells(windows), len(windows)) // or not within the time that tests have
	}
}
