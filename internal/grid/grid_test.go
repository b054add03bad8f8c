package grid_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/grid"
	"github.com/fairlimit/fairlimit/internal/model"
)

const (
	second    = 1_000_000
	day       = 24 * 3600 * second
	beginning = 1_700_000_000_123_456 // 16 digits of microseconds, of which none may get lost
)

// joined are the windows of several quotas.
func joined(quotas ...[]grid.Window) (all []grid.Window) {
	for _, windows := range quotas {
		all = append(all, windows...)
	}
	return all
}

// quota is the windows of one.
func quota(permits int, per int64, burst int) []grid.Window {
	return grid.Plain(model.Windows(permits, per, burst))
}

func TestTheGridTilesTimeIntoCellsOfA64thAtMost(t *testing.T) {
	t.Parallel()
	for _, windows := range [][]grid.Window{
		{{1000, 10 * second}},
		{{1000, 10_000_007}},
		quota(1000, 10*second, 100),
		quota(1000, 10_000_019, 5),
		quota(400, 10_019, 2),
		joined(quota(20, second, 5), quota(1000, 600*second, 100)),
		joined(quota(30, second, 0), quota(60, 3*second, 0), quota(2000, 10*365*day, 7)),
		joined(quota(1, 10*365*day, 0), quota(1_000_000_000, second, 0)),
	} {
		for i, g := range grid.Of(windows) {
			rng := rand.New(rand.NewPCG(1, 1))
			for range 2000 {
				slot := beginning + rng.Int64N(20*windows[i].Length)
				cell := g.Cell(slot)
				require.LessOrEqual(t, g.Start(cell), slot, "%v %v", windows, g)
				require.Greater(t, g.Start(cell+1), slot, "%v %v", windows, g)
				require.LessOrEqual(t, g.Start(cell+1)-g.Start(cell), windows[i].Length/64+2, "%v %v", windows, g)
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
		quota(1200, 10*second, 300), // both hold more slots than a log keeps apart
	} {
		for _, g := range grid.Of(windows) {
			for _, w := range windows {
				rng := rand.New(rand.NewPCG(1, 1))
				whole := g.Cell(w.Length) - g.Cell(0)
				for range 1000 {
					slot := beginning + rng.Int64N(2*g.Period)
					require.Equal(t, g.Cell(slot)+whole, g.Cell(slot+w.Length), "%v %v", windows, g)
				}
			}
		}
	}
}
