package fair

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/grid"
)

// window is one of a grid: at most Permits in any stretch of Length microseconds.
type window grid.Window

// windowsOf are the windows of quotas that bind.
func windowsOf(quotas []engine.Quota, guard time.Duration) ([]window, error) {
	all, err := allWindowsOf(quotas, guard)
	return binding(all), err
}

// allWindowsOf turns every quota into one window, and its Burst into another, from
// the longest to the shortest. Windows of one length are one, the stricter.
func allWindowsOf(quotas []engine.Quota, guard time.Duration) ([]window, error) {
	var windows []window
	if guard == ownGuard {
		guard = guardOf(quotas)
	}
	for _, q := range quotas {
		if q.Permits < 1 || q.Per <= 0 {
			return nil, fmt.Errorf("%w: a quota of %d permits within %v", engine.ErrUnsupported, q.Permits, q.Per)
		}
		if q.Permits > mostPermits {
			return nil, fmt.Errorf("%w: Permits is %d, fair counts to %d",
				engine.ErrUnsupported, q.Permits, mostPermits)
		}
		if q.Per > longestPer || guard > longestPer-q.Per {
			return nil, fmt.Errorf("%w: Per is %v with a guard of %v, fair holds up to %v",
				engine.ErrUnsupported, q.Per, guard, longestPer)
		}
		per := q.Per + guard
		windows = add(windows, window{q.Permits, ceilMicroseconds(per)})
		if q.Burst == 0 || q.Burst == q.Permits {
			continue
		}
		length := burstMicroseconds(q, per)
		if length == 0 {
			return nil, fmt.Errorf("%w: Burst of %d takes less than a microsecond of Per %v",
				engine.ErrUnsupported, q.Burst, per)
		}
		windows = add(windows, window{q.Burst, length})
	}
	if len(windows) > mostWindows {
		return nil, fmt.Errorf("%w: %d windows, fair holds up to %d", engine.ErrUnsupported, len(windows), mostWindows)
	}
	slices.SortFunc(windows, func(a, b window) int { return cmp.Compare(b.Length, a.Length) })
	return windows, nil
}

// binding drops the windows that another one implies. Where only single permits
// with a second between them fit, ten in five seconds is no limit. What is left
// has more permits the longer it is, and allows less than the shorter ones do:
// lua/fair/grant.lua goes by that. Turns of other quotas may obey none of that, so
// while they count, no window is dropped: see lua/fair/windows.lua.
func binding(windows []window) (all []window) {
	for i := len(windows) - 1; i >= 0; i-- {
		all = slices.DeleteFunc(all, func(w window) bool { return w.Permits >= windows[i].Permits })
		if span(all, windows[i].Permits) < float64(windows[i].Length) {
			all = slices.Insert(all, 0, windows[i])
		}
	}
	return all
}

// span is how far apart two permits are at least that are so many apart.
func span(windows []window, permits int) (length float64) {
	for _, w := range windows {
		length, permits = length+float64(permits/w.Permits)*float64(w.Length), permits%w.Permits
	}
	return length
}

const (
	// ownGuard stands for the guard of a limiter that was given none, not even 0:
	// longestGuard, or this part of the shortest Per if that is less.
	ownGuard     = -1
	longestGuard = 50 * time.Millisecond
	guardPart    = 20
)

// guardOf is the guard of those who were given none. It fits what is left of
// the longest Per that fair holds.
func guardOf(quotas []engine.Quota) time.Duration {
	guard := longestGuard
	for _, q := range quotas {
		guard = min(guard, q.Per/guardPart, max(0, longestPer-q.Per))
	}
	return guard.Truncate(time.Microsecond)
}

// most is how many permits fit every window.
func most(windows []window) int {
	if len(windows) == 0 {
		return 0
	}
	return slices.MinFunc(windows, func(a, b window) int { return a.Permits - b.Permits }).Permits
}

func add(windows []window, w window) []window {
	i := slices.IndexFunc(windows, func(other window) bool { return other.Length == w.Length })
	if i < 0 {
		return append(windows, w)
	}
	windows[i].Permits = min(windows[i].Permits, w.Permits)
	return windows
}

// word writes windows as the state names them, from the longest to the shortest:
// most/length/cells, separated by commas.
func word(windows []window) string {
	var words []string
	for i, cells := range cellsOf(windows) {
		words = append(words, fmt.Sprintf("%d/%d/%d", windows[i].Permits, windows[i].Length, cells))
	}
	return strings.Join(words, ",")
}

// cellsOf is on which grid each window is: see [grid.Cells].
func cellsOf(windows []window) []int64 {
	if len(windows) == 0 {
		return nil
	}
	plain := make([]grid.Window, len(windows))
	for i, w := range windows {
		plain[i] = grid.Window(w)
	}
	return grid.Cells(plain)
}

func ceilMicroseconds(d time.Duration) int64 {
	return int64((d-1)/time.Microsecond) + 1
}

// burstMicroseconds is the length in which Burst permits pass when all are
// evenly spaced: Burst·Per/Permits, rounded down, since the quota's own window
// keeps the total exact. It multiplies in two steps because Burst·Per would not
// fit 64 bits.
func burstMicroseconds(q engine.Quota, per time.Duration) int64 {
	burst, permits := int64(q.Burst), int64(q.Permits)
	whole, rest := int64(per)/permits, int64(per)%permits
	return (whole*burst + rest*burst/permits) / int64(time.Microsecond)
}
