// Package grid says into how many cells of time the windows of one queue divide
// the longest of them.
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

const (
	// Fewest is how many cells a window has: none is more than 1/64 of it.
	Fewest = 64

	// A cell is at least 1/128, so that a log holds the cells of a window.
	most = 2 * Fewest

	// How many counts are tried at the most. A window that is much shorter than
	// the longest has millions.
	candidates = 4096
)

// Cells returns, for each window, into how many cells the longest length is
// divided. In a window that holds more distinct slots than its log keeps apart,
// the slots of one cell share an entry.
//
// Why these numbers. A permit that is counted at the end of its cell is counted
// late. Let E(x) be the end of x's cell. If the length of every window is a
// whole number of cells, then E(x+length) = E(x)+length, and by induction no
// slot is later than E of the earliest: late by less than a cell, once. So from
// the longest to the shortest each window refines the cells of the one before
// it, and of the counts that this leaves it takes the one that divides best the
// windows shorter than itself but longer than a cell.
func Cells(windows []Window) []int64 {
	order := make([]int, len(windows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(windows[b].Length, windows[a].Length) })
	counts, period, cells := make([]int64, len(windows)), windows[order[0]].Length, int64(1)
	for _, i := range order {
		cells = divide(windows, windows[i], period, cells)
		counts[i] = min(cells, period) // nothing is finer than a microsecond
	}
	return counts
}

// divide is the count of cells a period for the Window, a multiple of base.
func divide(windows []Window, w Window, period, base int64) int64 {
	fewest := (scale(period, Fewest, w.Length) + base - 1) / base
	for scale(base*fewest, w.Length, period) < Fewest {
		fewest++
	}
	best, least := base*fewest, math.Inf(1)
	for j := fewest; least > 0 && j < fewest+candidates && scale(base*j, w.Length, period) <= most; j++ {
		misfit := 0.0
		for _, o := range windows {
			if o.Length < w.Length && o.Length >= w.Length/most {
				misfit += misfitOf(o.Length, base*j, period)
			}
		}
		if misfit < least {
			best, least = base*j, misfit
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

// scale is a*b/c rounded down, for a product of any size.
func scale(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(high, low, uint64(c))
	return int64(q)
}
