// Package scenario is the table of the ways in which callers may behave. A
// scenario is a value; adding one is adding a file and a line here.
package scenario

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

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

	// Unjudged says that nobody can be fair to everybody here. Otherwise there
	// is a goal: fair lets nobody overtake and nobody go early, and the upstream
	// turns nobody away, apart from what the machine does.
	Unjudged bool

	// Replies, if not nil, is how long each answer of Redis is held up on its
	// way.
	Replies *Delay

	// EndsRedis says that the scenario needs a Redis that it can end.
	EndsRedis bool

	// Incidents happen to the clients or to Redis during the run, in this
	// order.
	Incidents []Incident

	// Callers is how many callers a client has; nil: as many as the load says.
	Callers func(l Load, client int) int

	// Behave is what one caller does until ctx ends. It tells time by package
	// time only.
	Behave func(ctx context.Context, me Caller)
}

// Caller is what a scenario's caller knows, and what it can do.
type Caller struct {
	Load   Load
	Client int
	Number int // within its client
	Rand   *rand.Rand

	// Call waits for a turn of n permits and then calls the upstream. It
	// reports whether the caller got through.
	Call func(ctx context.Context, n int) bool

	// CallTokens is Call for a call that takes tokens, and ends when the last one
	// is written.
	CallTokens func(ctx context.Context, t measure.Tokens) bool

	// Estimator is the client's, nil without Tokens that need one.
	Estimator *estimate.Estimator
}

// All are the scenarios.
var All = slices.Concat([]Scenario{
	steady, burst, greedy, newcomer, trickle, weighted, impatient, fickle, crash, laggy, restart, onoff,
}, few(), []Scenario{tenants}, tokens())

// Named finds a scenario.
func Named(name string) (Scenario, bool) {
	for _, s := range All {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// HeldUp is the longest time for which the scenario holds up an answer on
// purpose.
func (s Scenario) HeldUp() time.Duration {
	if s.Replies == nil {
		return 0
	}
	return s.Replies.Most
}

// CallersOf is how many callers each client has.
func (s Scenario) CallersOf(l Load) []int {
	callers := make([]int, l.Clients)
	for client := range callers {
		callers[client] = l.Callers
		if s.Callers != nil {
			callers[client] = s.Callers(l, client)
		}
	}
	return callers
}

func part(d time.Duration, of float64) time.Duration { return time.Duration(of * float64(d)) }

// sleep reports whether ctx outlasted it.
func sleep(ctx context.Context, d time.Duration) bool {
	return clock.Sleep(ctx, d) == nil && ctx.Err() == nil
}
