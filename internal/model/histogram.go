package model

import (
	"slices"

	"github.com/fairlimit/fairlimit/internal/grid"
)

// histogram counts the permits further back than the cells of a window log, in
// buckets of equal width: a bucket is a count without a slot. All permits of a
// bucket count at its end, which is the safe side. A bucket is one cell of the
// window's grid, or two, four, eight ... of them where there are too many.
//
// In a window of one permit the slots ahead stand one length apart, because
// each was granted while the queue was never empty. Its grid is laid onto them,
// so that a bucket is a turn, there or not, and nothing is lost.
type histogram struct {
	grid   grid.Grid
	level  uint    // a bucket is 1<<level cells
	first  int64   // the number of the oldest bucket
	counts []int64 // oldest first
	most   int64   // no count was larger since the buckets were made
}

// lattice lays the grid of a window of one permit onto the slot. A slot a
// little later than one length apart, where a length was rounded, moves all
// older ones as much.
func (h *histogram) lattice(length, slot int64) {
	if len(h.counts) == 0 {
		h.reset(grid.Grid{Origin: slot + 1, Period: length, Cells: 1, Laps: 1})
	} else if late := h.grid.Phase(slot + 1); late <= length/grid.Fewest {
		h.grid.Origin += late
	}
}

func (h *histogram) reset(g grid.Grid) { *h = histogram{grid: g} }

func (h *histogram) bucket(slot int64) int64 { return h.grid.Cell(slot) >> h.level }

// end is the slot at which the permits of a bucket count.
func (h *histogram) end(bucket int64) int64 { return h.grid.Start((bucket+1)<<h.level) - 1 }

// add counts permits at a slot no earlier than those before.
func (h *histogram) add(slot, n int64) {
	bucket := h.bucket(slot)
	if len(h.counts) == 0 {
		h.first = bucket
	}
	for h.first+int64(len(h.counts)) <= bucket {
		h.counts = append(h.counts, 0)
	}
	newest := &h.counts[len(h.counts)-1]
	*newest += n
	h.most = max(h.most, *newest)
}

// remove takes permits out of the first bucket at or after their slot that has
// as many, if there is one.
func (h *histogram) remove(slot, n int64) bool {
	if len(h.counts) == 0 {
		return false
	}
	for i := max(0, h.bucket(slot)-h.first); i < int64(len(h.counts)); i++ {
		if h.counts[i] >= n {
			h.counts[i] -= n
			return true
		}
	}
	return false
}

// trim drops the buckets that end by the moment, and empty ones at either end.
func (h *histogram) trim(until int64) {
	for len(h.counts) > 0 && (h.counts[0] == 0 || h.end(h.first) <= until) {
		h.counts, h.first = h.counts[1:], h.first+1
	}
	for len(h.counts) > 0 && h.counts[len(h.counts)-1] == 0 {
		h.counts = h.counts[:len(h.counts)-1]
	}
}

// coarsen joins two buckets each.
func (h *histogram) coarsen() {
	if h.first%2 != 0 {
		h.counts, h.first = slices.Insert(h.counts, 0, 0), h.first-1
	}
	joined := make([]int64, (len(h.counts)+1)/2)
	for i, n := range h.counts {
		joined[i/2] += n
	}
	h.counts, h.first, h.level, h.most = joined, h.first/2, h.level+1, slices.Max(joined)
}

// makeRoom coarsens until there are not too many buckets up to the slot, before
// permits are counted from the first slot on, an interval apart. Where each
// bucket holds one at most, as many will do as there are bytes for.
func (h *histogram) makeRoom(first, slot, interval int64) {
	if len(h.counts) == 0 {
		h.first = h.bucket(first)
	}
	for {
		apart := first == slot || h.level == 0 && h.grid.Cells == 1 && h.grid.Period <= interval
		most := int64(maxBuckets)
		if h.bits() && apart {
			most = maxBits
		}
		if h.bucket(slot)-h.first < most {
			return
		}
		if len(h.counts) > 0 {
			h.coarsen()
		} else {
			h.level++
			h.first = h.bucket(first)
		}
	}
}
