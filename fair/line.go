package fair

import (
	"sort"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// line is the log of calls, or that of a unit, on the clock of the queue.
type line struct {
	*contents
	news *engine.News // at the moment of the State
	at   int64        // the server's time then
}

// kept is for how long a permit counts.
func (l *line) kept() int64 {
	kept := l.windows[0].Length
	if l.coarse > l.news.Clock {
		kept = max(kept, l.span)
	}
	return kept
}

// counts is whether anything that was granted does.
func (l *line) counts() bool { return l.last+l.kept() > l.news.Clock }

// passed is the newest slot that is not ahead. That at which the clock stands is.
func (l *line) passed() int64 {
	if l.news.Stands > 0 {
		return l.news.Clock - 1
	}
	return l.news.Clock
}

func (l *line) backlog() int64 {
	if !l.counts() {
		return 0
	}
	return l.sequence - l.totalUntil(l.passed(), l.news.Clock)
}

// uses is how much each window holds.
func (l *line) uses() []Window {
	all := tellWindows(l.windows)
	for i, w := range l.windows {
		if l.counts() {
			all[i].Held = l.sequence - l.backlog() - l.totalUntil(l.news.Clock-w.Length, l.news.Clock)
		}
	}
	return all
}

// tellWindows are windows that hold nothing.
func tellWindows(windows []window) (all []Window) {
	for _, w := range windows {
		all = append(all, Window{Permits: w.Permits, Per: microseconds(w.Length)})
	}
	return all
}

// available is how much all windows leave, unless one more has to wait.
func available(windows []Window, next time.Duration) int64 {
	least := int64(mostPermits)
	for _, w := range windows {
		least = min(least, int64(w.Permits)-w.Held)
	}
	if next > 0 {
		return 0
	}
	return max(0, least)
}

// Granted is how many permits have slots later than from and not later than to.
// Both count from the moment of the State; below 0 is the past, as far back as
// the longest window. It is for pictures of what comes: turns may still be given
// back, and new ones may come behind them.
func (s *State) Granted(from, to time.Duration) int64 { return s.line.granted(from, to) }

// Granted is as that of a [State], of one unit.
func (u *Unit) Granted(from, to time.Duration) int64 { return u.line.granted(from, to) }

func (l *line) granted(from, to time.Duration) int64 {
	if l == nil || from >= to {
		return 0
	}
	return l.until(to) - l.until(from)
}

// until is the sequence up to a moment.
func (l *line) until(d time.Duration) int64 {
	label := l.news.Clock + d.Microseconds()
	if d >= 0 {
		then := l.contents.news(l.at + d.Microseconds())
		if label = then.Clock; then.Stands > 0 {
			label-- // the slot that the clock stands at is ahead
		}
	}
	if label >= l.last {
		return l.sequence
	}
	return l.totalUntil(label, l.news.Clock)
}

// next is until one more would have a slot that is not before the tail, for a
// caller with these windows.
func (l *line) next(tail int64) time.Duration {
	slot := max(l.news.Clock, tail)
	if !l.counts() {
		return l.news.Until(slot)
	}
	slot = max(slot, l.last)
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
