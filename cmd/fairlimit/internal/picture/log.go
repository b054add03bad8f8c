package picture

import (
	"math"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	// guardPart and mostGuard are the guard of a limiter without WithGuard: that
	// part of its shortest Per.
	guardPart = 20
	mostGuard = 250 * time.Millisecond
)

// DefaultGuard asks for the guard of a limiter without WithGuard.
const DefaultGuard = time.Duration(-1)

// guardOf is the guard of a limiter that has these quotas.
func guardOf(quotas []engine.Quota, units []engine.Unit) time.Duration {
	shortest := mostGuard * guardPart
	for _, u := range append([]engine.Unit{{Quotas: quotas}}, units...) {
		for _, q := range u.Quotas {
			shortest = min(shortest, q.Per)
		}
	}
	return shortest / guardPart
}

// windowsOf are those that the quotas mean, with the guard. A burst is one more.
func windowsOf(quotas []engine.Quota, guard time.Duration) (all []window) {
	for _, q := range quotas {
		all = append(all, window{int64(q.Permits), q.Per + guard})
		if q.Burst > 0 && q.Burst < q.Permits {
			per := time.Duration(float64(q.Per) * float64(q.Burst) / float64(q.Permits))
			all = append(all, window{int64(q.Burst), per + guard})
		}
	}
	return all
}

// window is at most so many permits in any stretch of so much time.
type window struct {
	permits int64
	per     time.Duration
}

// within is how many permits have their slot after from, and no later than to.
func within(u *UnitLog, from, to time.Time) (n int64) {
	for _, c := range u.Cells {
		if c.At.After(from) && !c.At.After(to) {
			n += int64(c.Permits)
		}
	}
	return n
}

// next is when the windows have room for one more behind all that was granted.
func next(u *UnitLog, windows []window) (at time.Time) {
	for _, w := range windows {
		held := int64(1)
		for i := len(u.Cells) - 1; i >= 0; i-- {
			if held += int64(u.Cells[i].Permits); held > w.permits {
				if room := u.Cells[i].At.Add(w.per); room.After(at) {
					at = room
				}
				break
			}
		}
	}
	return at
}

// free is how much all windows let go now, if nothing is ahead.
func free(u *UnitLog, windows []window, now time.Time) int64 {
	least := int64(math.MaxInt64)
	for _, w := range windows {
		least = min(least, w.permits-within(u, now.Add(-w.per), now))
	}
	return max(0, least)
}

// columns cut time into pieces that stay where they are from one picture to the
// next, as long as their length does.
type columns struct {
	start time.Time
	step  time.Duration
}

// columnsOf shows all that is ahead if it is less than half a day.
func columnsOf(now time.Time, ahead time.Duration) columns {
	step := 1000 * time.Second
	for _, ms := range []time.Duration{40_000, 20_000, 10_000, 4000, 2000, 1000, 400, 200, 100, 40} {
		if shorter := ms * time.Millisecond; (Ahead-1)*shorter >= ahead {
			step = shorter
		}
	}
	return columns{now.Add(-Back*step - time.Duration(now.UnixNano()%int64(step))), step}
}

// permits are those of each column.
func (c columns) permits(u *UnitLog) []int64 {
	all := make([]int64, Back+Ahead)
	for i := range all {
		from := c.start.Add(time.Duration(i) * c.step)
		all[i] = within(u, from, from.Add(c.step))
	}
	return all
}

// used is how full the scarcest window is that ends with each column.
func (c columns) used(u *UnitLog, windows []window) []float64 {
	all := make([]float64, Back+Ahead)
	for i := range all {
		end := c.start.Add(time.Duration(i+1) * c.step)
		for _, w := range windows {
			all[i] = max(all[i], min(1, float64(within(u, end.Add(-w.per), end))/float64(w.permits)))
		}
	}
	return all
}
