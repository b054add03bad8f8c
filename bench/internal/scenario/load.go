// Package scenario says how much is asked of an engine: the quota, and who calls.
package scenario

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Load is what every engine in a run is put under. It travels to the client
// processes as it is.
type Load struct {
	Quota    Quota
	Input    int           // tokens that may come in a window of the quota; 0: they do not count
	Output   int           // that may be written in it
	Guard    time.Duration // what engines that take a guard are given
	Clients  int           // processes
	Callers  int           // goroutines in each, if the scenario does not say otherwise
	Duration time.Duration // of one scenario on one engine
	Seed     uint64

	Flow    string // who the client is to those who share by client
	Ceiling Quota  // of each client, within the common quota; zero for none
	Modest  bool   // the greedy clients do not call

	// Late, in virtual time, is by how much a timer for a wait is late.
	Late func(wait time.Duration) time.Duration `json:"-"`
}

// Default is the load of a run unless its scenario or a flag says otherwise.
// The guard follows from what the machine does.
var Default = Load{
	Quota: Quota{Permits: 20, Per: time.Second}, Clients: 4, Callers: 8, Duration: 12 * time.Second, Seed: 1,
}

// Or takes from another load what this one leaves at zero.
func (l Load) Or(other Load) Load {
	l.Quota.Permits = cmp.Or(l.Quota.Permits, other.Quota.Permits)
	l.Quota.Per = cmp.Or(l.Quota.Per, other.Quota.Per)
	l.Input, l.Output = cmp.Or(l.Input, other.Input), cmp.Or(l.Output, other.Output)
	l.Clients, l.Callers = cmp.Or(l.Clients, other.Clients), cmp.Or(l.Callers, other.Callers)
	l.Duration, l.Seed = cmp.Or(l.Duration, other.Duration), cmp.Or(l.Seed, other.Seed)
	return l
}

// Guarded is the load with a guard of twice the spread of delays, or what it has
// if that is more. By default a guard is at least 10 ms, and at most half of the
// quota's window.
func (l Load) Guarded(spread time.Duration) Load {
	const whole = time.Millisecond
	wanted := max(10*whole, (2*spread + whole - 1).Truncate(whole))
	l.Guard = max(l.Guard, min(wanted, l.Quota.Per/2))
	return l
}

// Quota is that of a limiter.
type Quota = fairlimit.Quota

// Limits are those of the upstream.
func (l Load) Limits() measure.Limits {
	return measure.Limits{
		Permits: l.Quota.Permits, Per: l.Quota.Per, Ceiling: l.Ceiling, Input: l.Input, Output: l.Output,
	}
}

// Period is how long a strict limiter with this guard takes to hand out the
// whole quota once.
func (l Load) Period() time.Duration { return l.Quota.Per + l.Guard }

// Check returns what is wrong with the load, and what to do about it.
func (l Load) Check() error {
	switch {
	case l.Quota.Burst < 0 || l.Quota.Burst > l.Quota.Permits:
		return fmt.Errorf("-burst is %d: want 0 (all of the quota) to %d, the permits in -quota",
			l.Quota.Burst, l.Quota.Permits)
	case l.Guard < 0:
		return fmt.Errorf("-guard is %v: want 0 or more", l.Guard)
	case l.Clients < 1:
		return fmt.Errorf("-clients is %d: want at least 1", l.Clients)
	case l.Callers < 1:
		return fmt.Errorf("-callers is %d: want at least 1", l.Callers)
	case l.Duration < 2*l.Period():
		return fmt.Errorf("-duration is %v: want at least %v, two windows of -quota %v and its guard",
			l.Duration, 2*l.Period(), l.Quota)
	}
	return nil
}
