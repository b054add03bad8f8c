package fair

import (
	"sort"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// line is what Granted and Next of a [State] read.
type line struct {
	*contents
	news *engine.News // at the moment of the State
	at   int64        // the server's time then
}

// Granted is how many permits have slots later than from and not later than to.
// Both count from the moment of the State; below 0 is the past, as far back as
// the longest window. It is for pictures of what comes: turns may still be given
// back, and new ones may come behind them.
func (s *State) Granted(from, to time.Duration) int64 {
	if s.line == nil || from >= to {
		return 0
	}
	return s.line.until(to) - s.line.until(from)
}

// until is the sequence up to a moment.
func (l *line) until(d time.Duration) int64 {
	label := l.news.Clock + min(d, 0).Microseconds()
	if d > 0 {
		label = l.contents.news(l.at + d.Microseconds()).Clock
	}
	if label >= l.last {
		return l.sequence
	}
	if d >= 0 && l.contents.news(l.at+d.Microseconds()).Stands > 0 {
		label-- // the slot that the clock stands at is ahead
	}
	return l.totalUntil(label, l.news.Clock)
}

// next is until one more permit would have a slot, for a caller with these
// windows.
func (l *line) next() time.Duration {
	slot := max(l.news.Clock, l.last)
	for _, w := range l.windows {
		// The window has room once it begins at a label after which fewer than
		// Permits were granted.
		room := sort.Search(int(w.Length), func(back int) bool {
			return l.sequence-l.totalUntil(l.last-int64(back), l.news.Clock) >= int64(w.Permits)
		})
		if room < int(w.Length) || l.sequence-l.totalUntil(l.last-w.Length, l.news.Clock) >= int64(w.Permits) {
			slot = max(slot, l.last-int64(room)+1+w.Length)
		}
	}
	return l.news.Until(slot)
}
