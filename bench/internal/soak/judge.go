package soak

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
)

// Moments are microseconds on the machine's wall clock, which Redis and its
// clients share here.

// turn is one grant, as the engine told it to the limiter.
type turn struct {
	limiter int
	grant   engine.Grant
	run     int64 // when the script ran
	batch   int64 // which answer it came in, and where
	place   int
	slot    int64
	n       int
	unused  bool // it went back, or was to
}

// arrival is a caller that was let go.
type arrival struct {
	limiter int
	at      int64
	n       int
}

// loss is a time in which Redis lost what it held.
type loss struct{ from, to int64 }

// apart reports whether something was lost between two moments, or at one of
// them.
func apart(losses []loss, from, to int64) bool {
	return slices.ContainsFunc(losses, func(l loss) bool { return l.from <= to && l.to >= from })
}

// entry is some permits at a moment, decided upon between two others.
type entry struct {
	at, first, last int64
	n               int
}

// exceeded counts the windows that hold too much: of those that were decided
// without a loss in between, and of the others.
func exceeded(entries []entry, w model.Window, losses []loss) (outside, after int) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	turns := make([]model.Turn, len(entries))
	for i, e := range entries {
		turns[i] = model.Turn{Slot: e.at, N: e.n}
	}
	w.Overfull(turns, func(oldest, newest int) {
		first, last := entries[newest].first, entries[newest].last
		for _, other := range entries[oldest:newest] {
			first, last = min(first, other.first), max(last, other.last)
		}
		if apart(losses, first, last) {
			after++
		} else {
			outside++
		}
	})
	return outside, after
}

func slots(turns []turn) (entries []entry) {
	for _, t := range turns {
		if !t.unused {
			entries = append(entries, entry{t.slot, t.run, t.run, t.n})
		}
	}
	return entries
}

// overtakes counts the turns that lie before one that was granted earlier, and
// is still held, with no loss in between. Of two answers of one moment nobody
// knows which came first.
func overtakes(turns []turn, losses []loss) (count int) {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.batch, b.batch), cmp.Compare(a.place, b.place))
	})
	var before, now int64 // the newest slot held: of earlier moments, and of this one in this batch
	for i, t := range turns {
		if i > 0 && t.run != turns[i-1].run {
			before = max(before, now)
			for j := i - 1; j >= 0 && turns[j].run == turns[i-1].run; j-- {
				if !turns[j].unused {
					before = max(before, turns[j].slot)
				}
			}
			now = 0
			if apart(losses, turns[i-1].run, t.run) {
				before = 0
			}
		} else if i > 0 && t.batch != turns[i-1].batch {
			now = 0
		}
		if t.slot < max(before, now) {
			count++
		}
		if !t.unused {
			now = max(now, t.slot)
		}
	}
	return count
}

// pair is a turn and the arrival that it was for.
type pair struct {
	turn    turn
	arrival int64
}

// pairs matches the turns of each limiter that were used with its arrivals of
// as many permits, the first with the first: if any way to match them leaves
// nobody early, this does. What is left over on either side is counted:
// arrivals that nobody granted, and turns that nobody took.
func pairs(turns []turn, arrivals []arrival) (matched []pair, strangers, forgotten int) {
	type kind struct{ limiter, n int }
	told, came := map[kind][]turn{}, map[kind][]int64{}
	for _, t := range turns {
		if k := (kind{t.limiter, t.n}); !t.unused {
			told[k] = append(told[k], t)
		}
	}
	for _, a := range arrivals {
		k := kind{a.limiter, a.n}
		came[k] = append(came[k], a.at)
	}
	for k, slots := range told {
		times := came[k]
		delete(came, k)
		slices.SortFunc(slots, func(a, b turn) int { return cmp.Compare(a.slot, b.slot) })
		slices.Sort(times)
		forgotten += max(0, len(slots)-len(times))
		strangers += max(0, len(times)-len(slots))
		for i := range min(len(slots), len(times)) {
			matched = append(matched, pair{slots[i], times[i]})
		}
	}
	for _, times := range came {
		strangers += len(times)
	}
	return matched, strangers, forgotten
}

// early counts the arrivals before their slots, by more than the clocks allow.
func early(matched []pair, tolerance int64) (count int) {
	for _, p := range matched {
		if p.arrival < p.turn.slot-tolerance {
			count++
		}
	}
	return count
}

// punctual are the arrivals as the upstream sees them, of those that came no
// later than the guard after their slots.
func punctual(matched []pair, guard int64) (entries []entry) {
	for _, p := range matched {
		if p.arrival-p.turn.slot <= guard {
			entries = append(entries, entry{p.arrival, p.turn.run, p.turn.run, p.turn.n})
		}
	}
	return entries
}

// windowsOf are those that the limiter promises to keep, with so long a guard.
func windowsOf(quotas []fairlimit.Quota, guard time.Duration) (windows []model.Window) {
	for _, q := range quotas {
		windows = append(windows, model.Windows(q.Permits, (q.Per+guard).Microseconds(), q.Burst)...)
	}
	return windows
}
