package fair

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// grid divides time into cells: as many a period, each a whole number of laps.
// In a window that holds more distinct moments than its log keeps apart, the
// slots of one cell share an entry.
//
// Why these numbers. A permit that is counted at the end of its cell is counted
// late. Let E(x) be the end of x's cell. If the length of every window is a
// whole number of cells, then E(x+length) = E(x)+length, and by induction no
// slot is later than E of the earliest: late by less than a cell, once. If it
// is not, each lap of each window may add to it, for as long as the queue is
// full.
type grid struct{ period, cells, laps int64 }

const (
	// A cell is at most 1/64 of its window. Promise 3: "later by at most Per/64".
	fewestCells = 64
	// And at least 1/128, so that a log holds the cells of a window.
	mostCells = 2 * fewestCells
)

// gridsOf returns the grid of each window. All share the longest length as
// their period, and from the longest to the shortest each refines the one
// before it, so that windows do not add up their lateness. Of the counts that
// this leaves, each window takes the one that divides best the windows shorter
// than itself but longer than a cell. For those shorter than a cell it is
// enough that a cell ends where a lap of theirs ends.
func gridsOf(windows []window) []grid {
	order := make([]int, len(windows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(windows[b].length, windows[a].length) })
	grids, period, cells := make([]grid, len(windows)), windows[order[0]].length, int64(1)
	pace := paceOf(windows)
	for _, i := range order {
		laps := int64(0)
		if pace.length <= windows[i].length/mostCells {
			laps = wholeLaps(period, pace.length)
		}
		cells = divide(windows, windows[i], period, cells, laps)
		grids[i] = grid{period: period, cells: cells, laps: cmp.Or(laps, cells)}
		if cells >= period { // nothing is finer than a microsecond
			cells, grids[i] = period, grid{period: period, cells: period, laps: period}
		}
	}
	return grids
}

// wholeLaps is how many lengths make a period, 0 if they do not: a length is
// off by less than a microsecond, for it was rounded down.
func wholeLaps(period, length int64) int64 {
	laps := (period + length/2) / length
	if off := period - laps*length; off > laps || off < -laps {
		return 0
	}
	return laps
}

// divide is the count of cells a period for the window, a multiple of base.
func divide(windows []window, w window, period, base, laps int64) int64 {
	fewest := ceilDiv(mulDiv(period, fewestCells, w.length), base)
	for mulDiv(base*fewest, w.length, period) < fewestCells {
		fewest++
	}
	best, least := base*fewest, math.Inf(1)
	for j := fewest; mulDiv(base*j, w.length, period) <= mostCells; j++ {
		cells := base * j
		if laps > 0 && float64(ceilDiv(laps, cells))*fewestCells*float64(period) > float64(laps)*float64(w.length) {
			continue
		}
		misfit := 0.0
		for _, o := range windows {
			if o.length < w.length && o.length >= w.length/mostCells {
				misfit += misfitOf(o.length, cells, period)
			}
		}
		if misfit < least {
			best, least = cells, misfit
		}
	}
	return best
}

// misfitOf is how far a length is from a whole number of cells, in cells. Less
// than a microsecond a cell is nothing.
func misfitOf(length, cells, period int64) float64 {
	exact := float64(length) * float64(cells) / float64(period)
	rest := math.Abs(exact - math.Round(exact))
	if rest*float64(period) <= float64(cells) {
		return 0
	}
	return rest
}

// paceOf is the window that tells where within a cell its permits can be: at
// most its permits in the last length of the cell, as many in the length
// before, and so on. Of the windows that are shorter than a cell of the longest
// it is the slowest, so that the others have room for what it spreads; of
// equally slow ones the shortest. Where there is none it is the shortest
// window. The scripts choose in the same way: set_pace in lua/fair/windows.lua.
func paceOf(windows []window) window {
	longest := slices.MaxFunc(windows, func(a, b window) int { return cmp.Compare(a.length, b.length) }).length
	return slices.MinFunc(windows, func(a, b window) int {
		if max(a.length, b.length) <= longest/fewestCells {
			rateA, rateB := float64(a.permits)/float64(a.length), float64(b.permits)/float64(b.length)
			if rateA < rateB*0.999 || rateB < rateA*0.999 {
				return cmp.Compare(rateA, rateB)
			}
		}
		return cmp.Compare(a.length, b.length)
	})
}

func mulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(high, low, uint64(c))
	return int64(q)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
