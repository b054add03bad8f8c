// Package scenario is the table of the ways in which callers may behave. A scenario is a value; adding one is adding a file and a line here.
package scenario

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/load"
)

// Scenario is one way of calling.
type Scenario struct {
	Name  string
	About string

	// Callers is how many callers a client has; nil: as many as the load says.
	Callers func(l load.Load, client int) int

	// Behave is what one caller does until ctx ends. It tells time by package time only.
	Behave func(ctx context.Context, me Caller)
}

// Caller is what a scenario's caller knows, and what it can do.
type Caller struct {
	Load   load.Load
	Client int
	Number int // within its client
	Rand   *rand.Rand

	// Call waits for a turn of n permits and then calls the upstream. It reports whether the caller got through.
	Call func(ctx context.Context, n int) bool
}

// All are the scenarios.
var All = []Scenario{steady, burst}

// Named finds a scenario.
func Named(name string) (Scenario, bool) {
	for _, s := range All {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// CallersOf is how many callers each client has.
func (s Scenario) CallersOf(l load.Load) []int {
	callers := make([]int, l.Clients)
	for client := range callers {
		callers[client] = l.Callers
		if s.Callers != nil {
			callers[client] = s.Callers(l, client)
		}
	}
	return callers
}

// sleep reports whether ctx outlasted it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
