package fairlimit

import "time"

// WithMaxLateness sets how long after its slot a turn may still be taken. A
// caller can wake later than that because its process or machine stood still.
// Then it does not go. It takes the next turn that this limiter holds. The
// caller of that turn takes the one after it, and so on, and the last caller
// lines up again. A caller that finds no turn before its deadline is refused.
// The missed permits are given back.
//
// So Wait returns at most d after the slot of the turn that it takes, however
// long the machine stands still. The default is half of [WithGuard], which
// leaves the other half for the way to the upstream; without that option it is
// 25 ms. 0 means no limit: every turn is taken, however late. So does
// WithGuard(0) alone.
//
// One kind of turn is missed without any limit. [Queue.Pause] holds the callers
// of its limiter at once. If a slot passes before Redis has recorded the pause,
// nobody may take that turn during the pause, and it counts as used after it.
//
// A slot may pass while its answer is on the way. So if an answer took longer
// than the quickest recent ones, the difference counts as lateness.
//
// After its first miss a caller wakes early and sleeps the rest in short naps. A
// caller that misses ten turns in a row gets [ErrMissed]. That machine stands
// still for longer than d nearly all the time.
func WithMaxLateness(d time.Duration) Option {
	return func(o *options) {
		o.length("WithMaxLateness", d)
		o.maxLateness, o.steers = &d, o.steers || d > 0
	}
}

// defaultLateness is half of the longest guard that an engine takes by itself.
// Half of a shorter one would be less than what a busy machine is late by.
const defaultLateness = 25 * time.Millisecond

// lateness is what WithMaxLateness says, or what goes with the guard.
func (o *options) lateness() time.Duration {
	switch {
	case o.maxLateness != nil:
		return *o.maxLateness
	case o.guarded:
		return o.guard / 2
	}
	return defaultLateness
}
