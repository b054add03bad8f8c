package model

import "fmt"

// How long the text of a window gets in the state. It decides when a log is
// compacted, and so which slots merge.

const (
	// maxBytes is what the cells and the histogram of a window may take with as
	// many digits as they would be written with now. Promise 6: "at most 3.5 KB
	// a window", of which 580 bytes are for all other numbers, the epochs and
	// the position.
	maxBytes = 3500 - 580

	// maxText is what they may take as they are written: with the numbers of
	// the histogram, but without the newest cell, which is not in the line.
	maxText = maxBytes + 75

	// maxBuckets bounds the time that it takes to coarsen a histogram: promise
	// 6. As many buckets as are left then are 1/256 of the backlog.
	maxBuckets = 512

	// maxBits is how many buckets of one permit the bytes hold: four in one.
	maxBits = 4 * maxBytes
)

// width is how many digits a cell takes: the last ones of its slot and of its
// running total. It is zero where the cells are to be written anew.
type width struct{ slot, total int }

// widthNow is wide enough for some time to come.
func (l *windowLog) widthNow() width {
	reach, held := l.Length, l.total()-l.base.total
	if len(l.cells) > 0 {
		reach = max(reach, l.last()-l.cells[0].slot)
	}
	return width{digits(2 * reach), digits(2 * max(500, held))}
}

// fits reports whether the width that the cells were written with still tells
// them apart, and if there are new ones, will for a length.
func (l *windowLog) fits() bool {
	if len(l.cells) < 2 {
		return true
	}
	reach, held := l.last()-l.cells[0].slot, l.total()-l.base.total
	if l.fresh > 0 {
		reach += l.Length
	}
	return digits(reach) <= l.written.slot && digits(held) <= l.written.total
}

// isWritten reports whether the cells can stay as they were written.
func (l *windowLog) isWritten() bool { return l.written != width{} && l.fits() }

// write ends a run of the script.
func (l *windowLog) write() {
	if !l.isWritten() {
		l.written = l.widthNow()
	}
	l.fresh, l.grew = 0, false
}

// full reports whether the log has to be compacted. Only a run in which it got
// a cell looks at this, or in which the cells outgrew their width: permits at
// the newest slot can do so, and then all of them are written wider.
func (l *windowLog) full() bool {
	if !l.grew && l.isWritten() {
		return false
	}
	if len(l.cells) <= maxCells && l.isWritten() {
		return l.text() > maxText
	}
	return len(l.cells) > maxCells || l.over(len(l.cells))
}

// text is the length of the cells and of the histogram as they are written.
func (l *windowLog) text() int {
	return max(0, len(l.cells)-1)*(l.written.slot+l.written.total) + l.behind.line()
}

// over reports whether so many cells and the histogram would be too long, if
// they were written now.
func (l *windowLog) over(cells int) bool {
	h, now := &l.behind, l.widthNow()
	return h.bytes()+cells*(now.slot+now.total) > maxBytes || len(h.counts) > maxBuckets && !h.bits()
}

// bits reports whether a bit says what a bucket holds.
func (h *histogram) bits() bool { return h.most <= 1 }

// bytes is the length of the counts: a digit for four buckets of one permit at
// most, else for each bucket as many digits as the largest takes.
func (h *histogram) bytes() int {
	if h.bits() {
		return (len(h.counts) + 3) / 4
	}
	return len(h.counts) * digits(h.most)
}

// line is the length of the line that a histogram takes in the state.
func (h *histogram) line() int {
	count := len(h.counts)
	if count == 0 {
		return 0
	}
	each, bytes := 0, int((h.first+int64(count)-1)>>2-h.first>>2)+1
	if !h.bits() {
		each, bytes = digits(h.most), h.bytes()
	}
	g := h.grid
	return bytes + len(fmt.Sprintf("behind %d %d %d %d %d %d %d %d:\n",
		g.Origin, g.Period, g.Cells, g.Laps, h.level, h.first, count, each))
}

// digits is how many decimal digits a number takes.
func digits(n int64) (count int) {
	for count = 1; n >= 10; n /= 10 {
		count++
	}
	return count
}
