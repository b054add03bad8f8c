package fairlimit

import "time"

// WithMaxLateness sets how long after its slot a turn is still taken. A caller
// that wakes later than that, because its process or machine stood still, does
// not go. It takes the next turn that this limiter holds, whose caller takes
// the one after that, and so on. The last caller lines up again. A caller for
// which no turn comes before its deadline is refused. What was missed is given
// back.
//
// So Wait returns at most d after the slot of the turn that it takes, however
// long the machine stands still. The default is half of [WithGuard], which
// leaves the other half for the way. Without a guard the default is no limit,
// and so is 0: every turn is taken, however late.
//
// A slot may come while its answer is on the way. So the time by which an
// answer took longer than the quickest recent ones counts as lateness, too.
//
// After its first miss a caller wakes early and sleeps the rest in short naps.
// One that misses ten turns in a row gets [ErrMissed]: then the machine stands
// still for longer than d nearly all the time.
func WithMaxLateness(d time.Duration) Option {
	return func(o *options) {
		if d < 0 {
			o.refuse("WithMaxLateness: %v is negative", d)
		}
		o.maxLateness, o.steers = &d, o.steers || d > 0
	}
}

// lateness is what WithMaxLateness says, or half of the guard.
func (o *options) lateness() time.Duration {
	if o.maxLateness != nil {
		return *o.maxLateness
	}
	return o.guard / 2
}
