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
	batch   int64 // which answer it came in
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

// overfull counts the windows that hold too much: of those whose turns were
// granted without a loss in between, and of the others.
func overfull(turns []turn, w model.Window, losses []loss) (outside, after int) {
	used := slices.DeleteFunc(slices.Clone(turns), func(t turn) bool { return t.unused })
	slices.SortFunc(used, func(a, b turn) int { return cmp.Compare(a.slot, b.slot) })
	slots := make([]model.Turn, len(used))
	for i, t := range used {
		slots[i] = model.Turn{Slot: t.slot, N: t.n}
	}
	w.Overfull(slots, func(oldest, newest int) {
		first, last := used[newest].run, used[newest].run
		for _, other := range used[oldest:newest] {
			first, last = min(first, other.run), max(last, other.run)
		}
		if apart(losses, first, last) {
			after++
		} else {
			outside++
		}
	})
	return outside, after
}

// overtakes counts the turns that lie before one that was granted earlier, and
// is still held, with no loss in between. Of two answers of one moment nobody
// knows which came first.
func overtakes(turns []turn, losses []loss) (count int) {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.batch, b.batch))
	})
	var before, newest, held int64 // the newest slot held: at earlier moments, by now, and before this turn
	for i, t := range turns {
		switch {
		case i == 0:
		case apart(losses, turns[i-1].run, t.run):
			before, newest, held = 0, 0, 0
		case t.run != turns[i-1].run:
			before, held = newest, newest
		case t.batch != turns[i-1].batch:
			held = before
		}
		if t.slot < held {
			count++
		}
		if !t.unused {
			held, newest = max(held, t.slot), max(newest, t.slot)
		}
	}
	return count
}

// match matches the turns of each limiter that were used with its arrivals of as
// many permits, the first with the first: if any way to match them leaves nobody
// early, this does. It counts the arrivals that came early, by more than the
// clocks allow, those that nobody granted, and the turns that nobody took.
func match(turns []turn, arrivals []arrival, tolerance int64) (early, strangers, forgotten int) {
	type kind struct{ limiter, n int }
	slots, came := map[kind][]int64{}, map[kind][]int64{}
	for _, t := range turns {
		if k := (kind{t.limiter, t.n}); !t.unused {
			slots[k] = append(slots[k], t.slot)
		}
	}
	for _, a := range arrivals {
		k := kind{a.limiter, a.n}
		came[k] = append(came[k], a.at)
		if _, granted := slots[k]; !granted {
			slots[k] = nil
		}
	}
	for k, slots := range slots {
		times := came[k]
		slices.Sort(slots)
		slices.Sort(times)
		forgotten += max(0, len(slots)-len(times))
		strangers += max(0, len(times)-len(slots))
		for i := range min(len(slots), len(times)) {
			if times[i] < slots[i]-tolerance {
				early++
			}
		}
	}
	return early, strangers, forgotten
}

// windowsOf are those that the limiter promises to keep.
func windowsOf(quotas []fairlimit.Quota, guard time.Duration) (windows []model.Window) {
	for _, q := range quotas {
		windows = append(windows, model.Windows(q.Permits, (q.Per+guard).Microseconds(), q.Burst)...)
	}
	return windows
}
