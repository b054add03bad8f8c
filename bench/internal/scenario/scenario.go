// Package scenario is the table of the ways in which callers may behave. A
// scenario is a value; a new one is an entry in All.
package scenario

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/estimate"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// Scenario is one way of calling.
type Scenario struct {
	Name  string
	About string

	// Load is what the scenario wants, where no flag says otherwise; what it
	// leaves at zero is Default's.
	Load Load

	// Engines are the engines to compare, where no flag says otherwise. Empty:
	// the program's.
	Engines string

	// Shares, if not nil, is the goal in place of that of order.
	Shares *Shares

	// Tokens, if not nil, is how callers guess what they take of further units.
	Tokens *Tokens

	// Shows is what there is to see in a scenario beyond who is fair: something
	// is lost, and the report says how much. Usually empty.
	Shows string

	// Replies is for how long each answer of Redis is held up.
	Replies Delay

	// NoVerdict says that the scenario has no goal. Otherwise fair lets nobody
	// overtake and nobody go early, and the upstream turns nobody away, apart from
	// what the machine does.
	NoVerdict bool

	// EndsRedis says that the scenario ends its Redis.
	EndsRedis bool

	// Incidents happen to the clients or to Redis during the run, in this
	// order.
	Incidents []Incident

	// Crowd is how many callers the first client has; 0: as many as the others.
	Crowd int

	// Behave is what one caller does until ctx ends.
	Behave func(ctx context.Context, me Caller)
}

// Caller is what a scenario's caller knows, and what it can do.
type Caller struct {
	Load   Load
	Client int
	Number int // within its client
	Rand   *rand.Rand

	// Call waits for a turn of n permits and then calls the upstream. It
	// reports whether the caller got through. If the call takes tokens, it ends when
	// the last one is written.
	Call func(ctx context.Context, n int, t *measure.Tokens) bool

	// Estimator is the client's, nil without Tokens that need one.
	Estimator *estimate.Estimator
}

// All are the scenarios.
var All = slices.Concat([]Scenario{
	steady, burst, greedy, trickle, weighted, impatient, fickle, crash, laggy, restart, onoff, killed, changed, learns,
}, few(), tokens())

// Named finds a scenario that there is.
func Named(name string) Scenario {
	return All[slices.IndexFunc(All, func(s Scenario) bool { return s.Name == name })]
}

// CallersOf is how many callers each client has.
func (s Scenario) CallersOf(l Load) []int {
	callers := slices.Repeat([]int{l.Callers}, l.Clients)
	callers[0] = cmp.Or(s.Crowd, l.Callers)
	return callers
}

func part(d time.Duration, of float64) time.Duration { return time.Duration(of * float64(d)) }

// sleep reports whether ctx outlasted it.
func sleep(ctx context.Context, d time.Duration) bool {
	return clock.Sleep(ctx, d) == nil && ctx.Err() == nil
}

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

	Flow string // who the client is to those who share by client
}

// Default is the load of a run unless its scenario or a flag says otherwise.
var Default = Load{
	Quota: Quota{Permits: 20, Per: time.Second}, Clients: 4, Callers: 8, Duration: 12 * time.Second, Seed: 1,
}

// Or takes from another load what this one leaves at zero, but for Burst, Guard and
// Flow: zero is a choice there.
func (l Load) Or(other Load) Load {
	l.Quota.Permits = cmp.Or(l.Quota.Permits, other.Quota.Permits)
	l.Quota.Per = cmp.Or(l.Quota.Per, other.Quota.Per)
	l.Input, l.Output = cmp.Or(l.Input, other.Input), cmp.Or(l.Output, other.Output)
	l.Clients, l.Callers = cmp.Or(l.Clients, other.Clients), cmp.Or(l.Callers, other.Callers)
	l.Duration, l.Seed = cmp.Or(l.Duration, other.Duration), cmp.Or(l.Seed, other.Seed)
	return l
}

// Guarded is the load with the guard that the library takes by itself, unless it
// has one: a twentieth of the quota's window, 250 ms at most.
func (l Load) Guarded() Load {
	l.Guard = cmp.Or(l.Guard, min(l.Quota.Per/20, 250*time.Millisecond))
	return l
}

// Quota is that of a limiter.
type Quota = fairlimit.Quota

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
