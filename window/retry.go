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
// wait. Who won at a tick is due just after it an interval later, and waits for
// the next tick: so processes take turns at being first. Two that tick at
// nearly the same moment do not, so the ticks shift by a random time now and
// then.
type ticker struct {
	start time.Time     // the seed of the shifts as well
	every time.Duration // 0: no ticks
}

func newTicker(every time.Duration) ticker { return ticker{time.Now(), every} }

// delay is the time from now until the first tick after the wait. If there are
// no ticks it is the wait.
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
