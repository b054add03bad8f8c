package window

import (
	"math/rand/v2"
	"time"
)

const (
	retryMargin = 3 * time.Millisecond // what Redisson adds to every wait
	ticksInStep = 128                  // ticks after which the ticker shifts
	mostTick    = 24 * time.Hour
)

// ticker tells when refused callers ask again. Redisson leaves that to a timer
// that all callers of a process share, and that fires at the first tick after a
// wait. A process that took permits at a tick is due an interval later, just
// after a tick, and waits nearly a whole one. So processes take turns. Two that
// tick at nearly the same moment do not, and one of them would stay first: so
// the ticks shift by a random time now and then.
type ticker struct {
	start time.Time     // the seed of the shifts as well
	every time.Duration // 0: no ticks
}

// delay is the time from now until the first tick after the wait.
func (t ticker) delay(wait time.Duration, now time.Time) time.Duration {
	if t.every == 0 {
		return wait
	}
	since := now.Sub(t.start)
	due := since + wait + retryMargin
	period := due / t.every
	tick := t.tick(period)
	if tick < due {
		tick = t.tick(period + 1)
	}
	return tick - since
}

// tick is when the tick of that period falls, from start on.
func (t ticker) tick(period time.Duration) time.Duration {
	shift := rand.NewPCG(uint64(t.start.UnixNano()), uint64(period/ticksInStep))
	return period*t.every + time.Duration(shift.Uint64()%uint64(t.every))
}
