package model

import "slices"

// mostNoted is how many debts ahead a unit notes: older ones are not cancelled.
const mostNoted = 40

// Units is the rule for turns that count several units, by brute force: one log
// for each, the first that of calls. A turn takes an amount of each.
type Units struct {
	Logs  []*Exact
	debts [][]Turn // of each log, those that may lie ahead, the newest last
}

// NewUnits has these windows of each unit.
func NewUnits(windows ...[]Window) *Units {
	u := &Units{debts: make([][]Turn, len(windows))}
	for _, w := range windows {
		u.Logs = append(u.Logs, &Exact{Windows: w})
	}
	return u
}

// Tail is the newest slot that is held of any unit.
func (u *Units) Tail() (tail int64) {
	for _, e := range u.Logs {
		if n := len(e.Held); n > 0 {
			tail = max(tail, e.Held[n-1].Slot)
		}
	}
	return tail
}

// Earliest is the slot that amounts get at a moment.
func (u *Units) Earliest(now int64, amounts []int) int64 {
	x := max(now, u.Tail())
	for i, n := range amounts {
		for _, w := range u.Logs[i].Windows {
			if n > 0 {
				x = max(x, w.Free(u.Logs[i].Held, n))
			}
		}
	}
	return x
}

// Take books amounts at their earliest slot, unless it is more than longest away.
func (u *Units) Take(now int64, amounts []int, longest int64) (slot int64, granted bool) {
	slot = u.Earliest(now, amounts)
	if slot-now > longest {
		return slot, false
	}
	for i, n := range amounts {
		u.book(i, slot, n)
	}
	return slot, true
}

func (u *Units) book(unit int, slot int64, n int) {
	if n > 0 {
		u.Logs[unit].Hold(Turn{slot, n})
	}
}

// Release takes amounts out at a slot.
func (u *Units) Release(slot int64, amounts []int) {
	for i, n := range amounts {
		u.takeOut(i, slot, n)
	}
}

func (u *Units) takeOut(unit int, slot int64, n int) {
	held := u.Logs[unit].Held
	for i := range held {
		if held[i].Slot == slot {
			part := min(n, held[i].N)
			held[i].N -= part
			n -= part
		}
	}
	u.Logs[unit].Held = slices.DeleteFunc(held, func(t Turn) bool { return t.N == 0 })
}

// Settle settles a turn whose slot has come, once. Of each unit it had reserved so
// many more than it used; where that is negative, it used more.
func (u *Units) Settle(clock *Clock, slot int64, unused []int) {
	for i, n := range unused {
		u.owe(clock.Now(), i, -n)
	}
	for i, n := range unused {
		u.refund(clock, i, slot, n)
	}
}

// owe books a debt at the tail, one permit after the other.
func (u *Units) owe(now int64, unit, n int) {
	e := u.Logs[unit]
	for ; n > 0; n-- {
		x := max(now, u.Tail())
		for _, w := range e.Windows {
			x = max(x, w.Free(e.Held, 1))
		}
		e.Hold(Turn{x, 1})
		debts := u.debts[unit]
		if k := len(debts) - 1; k >= 0 && debts[k].Slot == x {
			debts[k].N++
		} else {
			debts = append(debts, Turn{x, 1})
		}
		u.debts[unit] = debts
	}
}

// refund cancels debts that lie ahead, the newest first. The rest is taken out at
// the slot. Debts of calls are not noted.
func (u *Units) refund(clock *Clock, unit int, slot int64, n int) {
	if n <= 0 {
		return
	}
	debts := slices.DeleteFunc(u.debts[unit], func(t Turn) bool { return t.N == 0 || !clock.Ahead(t.Slot) })
	debts = debts[max(0, len(debts)-mostNoted):]
	for i := len(debts) - 1; i >= 0 && unit > 0; i-- {
		part := min(n, debts[i].N)
		debts[i].N -= part
		n -= part
		u.takeOut(unit, debts[i].Slot, part)
	}
	u.debts[unit] = slices.DeleteFunc(debts, func(t Turn) bool { return t.N == 0 })
	if slot+Longest(u.Logs[unit].Windows) > clock.Now() {
		u.takeOut(unit, slot, n)
	}
}

// Available is how much of a unit could be had at a moment.
func (u *Units) Available(clock *Clock, unit int) int {
	e, now := u.Logs[unit], clock.Now()
	least := 1 << 52
	if clock.Wait(max(now, u.Tail())) > 0 {
		return 0
	}
	for _, w := range e.Windows {
		inside := 0
		for _, t := range e.Held {
			if t.Slot > now-w.Length {
				inside += t.N
			}
		}
		least = min(least, w.Permits-inside)
	}
	return least
}

// Observe books what is available of a unit beyond what is left.
func (u *Units) Observe(clock *Clock, unit, left int) {
	if n := u.Available(clock, unit) - left; n > 0 {
		u.book(unit, clock.Now(), n)
	}
}

// Queued is how much of a unit lies ahead.
func (u *Units) Queued(clock *Clock, unit int) (n int) {
	for _, t := range u.Logs[unit].Held {
		if clock.Ahead(t.Slot) {
			n += t.N
		}
	}
	return n
}
