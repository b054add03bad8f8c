// Package grid says where the cells of time lie that the windows of one quota
// share.
package grid

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Window is at most Permits in any half-open stretch of Length microseconds.
type Window struct {
	Permits int
	Length  int64
}

// Plain is windows of another name.
func Plain[W ~struct {
	Permits int
	Length  int64
}](windows []W) (plain []Window) {
	for _, w := range windows {
		plain = append(plain, Window(w))
	}
	return plain
}

// Grid divides time into cells: as many a period, each a whole number of laps.
// In a window that holds more distinct moments than its log keeps apart, the
// slots of one cell share an entry.
//
// Why these numbers. A permit that is counted at the end of its cell is counted
// late. Let E(x) be the end of x's cell. If the length of every window is a
// whole number of cells, then E(x+length) = E(x)+length, and by induction no
// slot is later than E of the earliest: late by less than a cell, once. If it
// is not, each lap of each window may add to it, for as long as the queue is
// full.
type Grid struct {
	Origin              int64 // where a period begins
	Period, Cells, Laps int64
}

const (
	// Fewest is how many cells a window has: none is more than 1/64 of it.
	// Promise 3: "later by at most Per/64".
	Fewest = 64

	// A cell is at least 1/128, so that a log holds the cells of a window.
	most = 2 * Fewest

	// How many counts are tried at the most. A window that is much shorter than
	// the longest has millions.
	candidates = 4096
)

// Of returns the grid of each window. All share the longest length as their
// period, and from the longest to the shortest each refines the one before it,
// so that windows do not add up their lateness. Of the counts that this leaves,
// each window takes the one that divides best the windows shorter than itself
// but longer than a cell. For those shorter than a cell it is enough that a
// cell ends where a lap of theirs ends.
func Of(windows []Window) []Grid {
	order := make([]int, len(windows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(windows[b].Length, windows[a].Length) })
	grids, period, cells := make([]Grid, len(windows)), windows[order[0]].Length, int64(1)
	pace := PaceOf(windows)
	for _, i := range order {
		laps := int64(0)
		if pace.Length <= windows[i].Length/most {
			laps = wholeLaps(windows, period, pace)
		}
		cells = divide(windows, windows[i], period, cells, laps)
		grids[i] = Grid{Period: period, Cells: cells, Laps: cmp.Or(laps, cells)}
		if cells >= period { // nothing is finer than a microsecond
			cells, grids[i] = period, Grid{Period: period, Cells: period, Laps: period}
		}
	}
	return grids
}

// wholeLaps is how many lengths of the pace make a period, 0 if they do not. A
// burst's length was rounded down to a microsecond, so its quota's permits tell
// the count. Of others it is off by less than a microsecond a lap.
func wholeLaps(windows []Window, period int64, pace Window) int64 {
	for _, w := range windows {
		if burstOf(w, pace) {
			laps := float64(period) / float64(w.Length) * float64(w.Permits) / float64(pace.Permits)
			if whole := math.Round(laps); math.Abs(laps-whole) < 1e-9*whole {
				return int64(whole)
			}
		}
	}
	laps := (period + pace.Length/2) / pace.Length
	if off := period - laps*pace.Length; off > laps || off < -laps {
		return 0
	}
	return laps
}

// burstOf reports whether a window is as long as a burst of the quota. The
// quota's length may be rounded up from a part of a microsecond.
func burstOf(quota, w Window) bool {
	if w.Permits >= quota.Permits {
		return false
	}
	off := Scale(quota.Length, int64(w.Permits), int64(quota.Permits)) - w.Length
	return off == 0 || off == 1
}

// divide is the count of cells a period for the Window, a multiple of base.
func divide(windows []Window, w Window, period, base, laps int64) int64 {
	fewest := ceilDiv(Scale(period, Fewest, w.Length), base)
	for Scale(base*fewest, w.Length, period) < Fewest {
		fewest++
	}
	best, least := base*fewest, math.Inf(1)
	for j := fewest; least > 0 && j < fewest+candidates && Scale(base*j, w.Length, period) <= most; j++ {
		cells := base * j
		if laps > 0 && float64(ceilDiv(laps, cells))*Fewest*float64(period) > float64(laps)*float64(w.Length) {
			continue
		}
		misfit := 0.0
		for _, o := range windows {
			if o.Length < w.Length && o.Length >= w.Length/most {
				misfit += misfitOf(o.Length, cells, period)
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

// Cell is the number of the cell that a slot lies in.
func (g Grid) Cell(slot int64) int64 {
	phase := g.Phase(slot)
	return (slot-g.Origin-phase)/g.Period*g.Cells + Scale(Scale(phase, g.Laps, g.Period), g.Cells, g.Laps)
}

// Start is the first moment of a cell.
func (g Grid) Start(cell int64) int64 {
	share := floorMod(cell, g.Cells)
	lap := scaleUp(share, g.Laps, g.Cells)
	return g.Origin + (cell-share)/g.Cells*g.Period + scaleUp(lap, g.Period, g.Laps)
}

// Phase is how far into its period a slot lies.
func (g Grid) Phase(slot int64) int64 { return floorMod(slot-g.Origin, g.Period) }

// PaceOf is the window that tells where within a cell its permits can be: at
// most its permits in the last length of the cell, as many in the length
// before, and so on. Of the windows that are shorter than a cell of the longest
// it is the slowest, so that the others have room for what it spreads; of
// equally slow ones the shortest. Where there is none it is the shortest
// window. The scripts choose in the same way: set_pace in lua/fair/windows.lua.
func PaceOf(windows []Window) Window {
	longest := slices.MaxFunc(windows, func(a, b Window) int { return cmp.Compare(a.Length, b.Length) }).Length
	return slices.MinFunc(windows, func(a, b Window) int {
		if max(a.Length, b.Length) <= longest/Fewest {
			rateA, rateB := float64(a.Permits)/float64(a.Length), float64(b.Permits)/float64(b.Length)
			if rateA < rateB*0.999 || rateB < rateA*0.999 {
				return cmp.Compare(rateA, rateB)
			}
		}
		return cmp.Compare(a.Length, b.Length)
	})
}

// Scale is a*b/c rounded down, for a product of any size.
func Scale(a, b, c int64) int64 {
	q, _ := multiply(a, b, c)
	return q
}

func scaleUp(a, b, c int64) int64 {
	q, rest := multiply(a, b, c)
	if rest > 0 {
		q++
	}
	return q
}

// multiply is a*b/c, whole and rest.
func multiply(a, b, c int64) (whole, rest int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(high, low, uint64(c))
	return int64(q), int64(r)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func floorMod(a, b int64) int64 { return ((a % b) + b) % b }
