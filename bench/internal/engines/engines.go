// Package engines is the table of what can be put under load. Each entry makes
// one thing that a caller can ask for its turn. Nothing else in the benchmark
// knows the engines apart.
package engines

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/window"
)

// Acquirer lets callers through, each at its turn. All callers of a process use
// it at once. Acquire returns nil when the caller may go with n permits.
type Acquirer interface {
	Acquire(ctx context.Context, n int) error
}

// Counter is an Acquirer for calls that take input and output, too. Take lets a
// call through that reserves so many tokens.
type Counter interface {
	Take(ctx context.Context, input, output int) (Settle, error)
}

// Settle says what the output of a call was. It is nil for an engine that does
// not settle.
type Settle func(ctx context.Context, output int) error

// Traveller is an Acquirer whose calls wait on their way to the upstream.
type Traveller interface {
	Over(base http.RoundTripper) http.RoundTripper
}

// Engine is an entry.
type Engine struct {
	Name  string
	About string
	Only  string // the one scenario that it is for; empty: all

	Guards bool // can be given a guard
	Bursts bool // can be given a burst other than the whole quota
	Tokens bool // is a [Counter], where tokens count

	// Open makes the limiter of one process. It does no I/O.
	Open func(Setup) (Acquirer, error)

	// Rescue is what somebody does after a process was killed, and Change what
	// somebody does if the quota has changed to that of the setup. Nil: restart the
	// clients.
	Rescue, Change Steer
}

// Steer says what was done.
type Steer func(context.Context, Setup) (what string, err error)

// Setup is what the limiter of a process is made from.
type Setup struct {
	scenario.Load
	Redis  redis.UniversalClient
	Name   string
	Missed func() // called when a caller woke too late for its turn
}

// All are the engines, the default ones first.
var All = []Engine{
	{
		Name:   "fair",
		About:  "the reservation queue: one question, one sleep, first come first served",
		Guards: true, Bursts: true, Tokens: true,
		Open:   queue(),
		Rescue: nothing,
	},
	{
		Name:  "window",
		About: "Redisson's sliding window: a refused caller sleeps and asks again, with all the others",
		Open:  func(s Setup) (Acquirer, error) { return open(s, fairlimit.WithEngine(window.New)) },

		Change: setRate,
	},
	{
		Name:   "fair+flows",
		About:  "fair with each client a flow: they share the quota, however many callers each has",
		Guards: true, Bursts: true, Tokens: true,
		Open: func(s Setup) (Acquirer, error) {
			return open(s, fairlimit.WithGuard(s.Guard), fairlimit.WithFlow(cmp.Or(s.Flow, "a client"), 1))
		},
		Rescue: nothing,
	},
	{
		Name: "redis_rate",
		About: "go-redis/redis_rate in the loop that people write around it: " +
			"not allowed, so sleep RetryAfter and ask again",
		Bursts: true, Tokens: true,
		Open: openRedisRate,
	},
	{
		Name:   "fair+requeue",
		About:  "fair, and somebody calls Requeue",
		Only:   "killed",
		Guards: true, Bursts: true,
		Open:   queue(),
		Rescue: requeue,
	},
	{
		Name:   "fair+stored",
		About:  "fair by the quota that is stored in Redis, and somebody calls SetQuotas",
		Only:   "changed",
		Guards: true, Bursts: true,
		Open:   queue(fairlimit.WithStoredQuota()),
		Change: setQuota,
	},
	{
		Name:   "fair+learn",
		About:  "fair in an http.Client, which learns the quota from the answers",
		Only:   "learns",
		Guards: true, Bursts: true,
		Open: openLearning,
	},
}

// For are the engines that can be put through a scenario, under its load.
func For(s scenario.Scenario, l scenario.Load) []Engine {
	return slices.DeleteFunc(slices.Clone(All), func(e Engine) bool {
		return l.Output > 0 && !e.Tokens || e.Only != "" && e.Only != s.Name
	})
}

// Named finds an engine that there is.
func Named(name string) Engine {
	return All[slices.IndexFunc(All, func(e Engine) bool { return e.Name == name })]
}

// Given is the load without what the engine cannot be given.
func (e Engine) Given(l scenario.Load) scenario.Load {
	if !e.Guards {
		l.Guard = 0
	}
	if !e.Bursts {
		l.Quota.Burst = 0
	}
	return l
}

// ours is a limiter of this library. Its callers call WaitN or Take, as users do.
type ours struct{ fairlimit.Limiter }

func (o ours) Acquire(ctx context.Context, n int) error { return o.WaitN(ctx, n) }

func (o ours) Take(ctx context.Context, input, output int) (Settle, error) {
	queue := o.Limiter.(*fairlimit.Queue)
	turn, err := queue.Take(ctx, fairlimit.Amounts{"input": input, "output": output})
	return func(ctx context.Context, output int) error {
		return turn.Settle(ctx, fairlimit.Amounts{"output": output})
	}, err
}

func queue(opts ...fairlimit.Option) func(Setup) (Acquirer, error) {
	return func(s Setup) (Acquirer, error) {
		return open(s, append(slices.Clone(opts), fairlimit.WithGuard(s.Guard))...)
	}
}

// open makes a limiter with a trace, and units if they count.
func open(s Setup, opts ...fairlimit.Option) (Acquirer, error) {
	if s.Missed != nil {
		opts = append(opts, fairlimit.WithTrace(&fairlimit.Trace{Missed: func(int, time.Duration) { s.Missed() }}))
	}
	if s.Output > 0 {
		opts = append(opts,
			fairlimit.WithUnit("input", scenario.Quota{Permits: s.Input, Per: s.Quota.Per}),
			fairlimit.WithUnit("output", scenario.Quota{Permits: s.Output, Per: s.Quota.Per}))
	}
	limiter, err := fairlimit.New(s.Redis, s.Name, s.Quota, opts...)
	return ours{limiter}, err
}
