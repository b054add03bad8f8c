package model

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Grid cuts time into cells: as many a period, each a whole number of laps.
//
// Why a grid, and why these numbers. A permit that is counted at the end of its
// cell is counted late. Let E(x) be the end of x's cell. If the length of every
// window is a whole number of cells, then E(x+Length) = E(x)+Length, and by
// induction no slot is later than E of the earliest: late by less than a cell,
// once. If it is not, each lap of each window may add to it, for as long as the
// queue is full.
type Grid struct {
	origin              int64
	period, cells, laps int64
}

const (
	// A cell is at most 1/64 of its window: "later by at most Per/64".
	gridMin = 64
	// And at least 1/128, so that the cells of a window are fewer than its log
	// holds.
	gridMax = 2 * gridMin
)

// Grids returns the grid of each window. All share the longest length as their
// period, and from the longest to the shortest each refines the one before it,
// so that windows do not add up their lateness. Of the counts that this leaves,
// each window takes the one that divides best the windows shorter than itself
// but longer than a cell. For those shorter than a cell it is enough that a
// cell ends where a lap of theirs ends.
func Grids(windows []Window) []Grid {
	order := make([]int, len(windows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(windows[b].Length, windows[a].Length) })
	grids, period, cells := make([]Grid, len(windows)), Longest(windows), int64(1)
	pace := PaceOf(windows)
	for _, i := range order {
		laps := int64(0)
		if pace.Length <= windows[i].Length/gridMax {
			laps = wholeLaps(period, pace.Length)
		}
		cells = divide(windows, windows[i], period, cells, laps)
		grids[i] = Grid{period: period, cells: cells, laps: cmp.Or(laps, cells)}
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
func divide(windows []Window, w Window, period, base, laps int64) int64 {
	fewest := ceilDiv(mulDiv(period, gridMin, w.Length), base)
	for mulDiv(base*fewest, w.Length, period) < gridMin {
		fewest++
	}
	best, least := base*fewest, math.Inf(1)
	for j := fewest; mulDiv(base*j, w.Length, period) <= gridMax; j++ {
		cells := base * j
		if laps > 0 && float64(ceilDiv(laps, cells))*gridMin*float64(period) > float64(laps)*float64(w.Length) {
			continue
		}
		misfit := 0.0
		for _, o := range windows {
			if o.Length < w.Length && o.Length >= w.Length/gridMax {
				misfit += off(o.Length, cells, period)
			}
		}
		if misfit < least {
			best, least = cells, misfit
		}
	}
	return best
}

// off is how far a length is from a whole number of cells, in cells. Less than
// a microsecond a cell is nothing.
func off(length, cells, period int64) float64 {
	exact := float64(length) * float64(cells) / float64(period)
	rest := math.Abs(exact - math.Round(exact))
	if rest*float64(period) <= float64(cells) {
		return 0
	}
	return rest
}

// cell is the number of the cell that a slot lies in.
func (g Grid) cell(slot int64) int64 {
	slot -= g.origin
	periods, rest := floorDiv(slot, g.period), floorMod(slot, g.period)
	return periods*g.cells + mulDiv(mulDiv(rest, g.laps, g.period), g.cells, g.laps)
}

// start is the first moment of a cell.
func (g Grid) start(cell int64) int64 {
	periods, rest := floorDiv(cell, g.cells), floorMod(cell, g.cells)
	return g.origin + periods*g.period + mulDivUp(mulDivUp(rest, g.laps, g.cells), g.period, g.laps)
}

// PaceOf is the window that tells where within a cell its permits can be: at
// most Permits in the last Length of it, as many in the Length before, and so
// on. Of the windows that are shorter than a cell of the longest it is the
// slowest, so that the others have room for what it spreads; of equally slow
// ones the shortest. Where there is none it is the shortest window.
func PaceOf(windows []Window) Window {
	longest := Longest(windows)
	return slices.MinFunc(windows, func(a, b Window) int {
		if shortA, shortB := a.Length <= longest/gridMin, b.Length <= longest/gridMin; shortA && shortB {
			rateA, rateB := float64(a.Permits)/float64(a.Length), float64(b.Permits)/float64(b.Length)
			if rateA < rateB*0.999 || rateB < rateA*0.999 {
				return cmp.Compare(rateA, rateB)
			}
		}
		return cmp.Compare(a.Length, b.Length)
	})
}

func mulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(high, low, uint64(c))
	return int64(q)
}

func mulDivUp(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, rest := bits.Div64(high, low, uint64(c))
	if rest > 0 {
		q++
	}
	return int64(q)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func floorMod(a, b int64) int64 { return ((a % b) + b) % b }

func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }
