// Package engines is the table of what can be put under load. Each entry makes
// one thing a caller can ask for its turn; nothing else in the benchmark knows
// the engines apart.
package engines

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/window"
)

// Acquirer lets callers through, each at its turn. It is used by all callers of
// a process at once.
type Acquirer interface {
	// Acquire returns nil when the caller may go with n permits. The turn is nil
	// if nothing is known of it, or if the Acquirer is a Teller.
	Acquire(ctx context.Context, n int) (*measure.Turn, error)
}

// Teller is an Acquirer that knows the turns of a process, but not who took
// which.
type Teller interface {
	Told() measure.Told
}

// Counter is an Acquirer for calls that take input and output too.
type Counter interface {
	// Take lets a call through that reserves so many tokens. If Settle is not
	// nil, it wants to know what the output was.
	Take(ctx context.Context, input, output int) (Settle, error)
}

// Settle says what the output of a call was.
type Settle func(ctx context.Context, output int) error

// Engine is an entry.
type Engine struct {
	Name  string
	About string

	Queues bool // promises turns in the future
	Guards bool // can be given a guard
	Bursts bool // can be given a burst other than the whole quota
	Ceils  bool // can be given a ceiling for each client

	Tokens  bool // is a [Counter], where tokens count
	NoCalls bool // is for tokens only

	// Open makes the limiter of one process. It does no I/O.
	Open func(Setup) (Acquirer, error)
}

// Setup is what the limiter of a process is made from.
type Setup struct {
	scenario.Load
	Redis redis.UniversalClient
	Name  string
}

// All are the engines, the default ones first.
var All = []Engine{
	fairEngine, windowEngine, flowsEngine, redisRateEngine, bottleneckEngine, bullmqEngine,
	chainedEngine, rivalEngine,
}

// For are the engines that can be put under a load.
func For(l scenario.Load) []Engine {
	return slices.DeleteFunc(slices.Clone(All), func(e Engine) bool {
		if l.Output > 0 {
			return !e.Tokens
		}
		return e.NoCalls
	})
}

// Named finds an engine.
func Named(name string) (Engine, bool) {
	for _, e := range All {
		if e.Name == name {
			return e, true
		}
	}
	return Engine{}, false
}

// Given is the load without what the engine cannot be given.
func (e Engine) Given(l scenario.Load) scenario.Load {
	if !e.Guards {
		l.Guard = 0
	}
	if !e.Bursts {
		l.Quota.Burst = 0
	}
	if !e.Ceils {
		l.Ceiling = scenario.Quota{}
	}
	return l
}

// chain lets those through who got through one limiter after the other.
type chain []Acquirer

// chained is a limiter of the client, if it has a ceiling, and then that of all;
// and then one for each further unit.
func chained(s Setup, of func(name string, q scenario.Quota) (Acquirer, error)) (c chain, err error) {
	add := func(suffix string, q scenario.Quota) {
		if err == nil && q.Permits > 0 {
			var one Acquirer
			one, err = of(s.Name+suffix, q)
			c = append(c, one)
		}
	}
	add(":"+s.Flow, s.Ceiling)
	add("", s.Quota)
	add(":input", scenario.Quota{Permits: s.Input, Per: s.Quota.Per})
	add(":output", scenario.Quota{Permits: s.Output, Per: s.Quota.Per})
	return c, err
}

func (c chain) Acquire(ctx context.Context, n int) (turn *measure.Turn, err error) {
	for _, limiter := range c {
		if turn, err = limiter.Acquire(ctx, n); err != nil {
			return nil, err
		}
	}
	return turn, nil
}

// Take is for a chain of three units.
func (c chain) Take(ctx context.Context, input, output int) (Settle, error) {
	for i, n := range []int{1, input, output} {
		if _, err := c[i].Acquire(ctx, n); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

var fairEngine = Engine{
	Name:   "fair",
	About:  "the reservation queue: one question, one sleep, first come first served",
	Queues: true, Guards: true, Bursts: true, Tokens: true,
	Open: func(s Setup) (Acquirer, error) { return openFair(s) },
}

var flowsEngine = Engine{
	Name:   "fair+flows",
	About:  "fair with each client a flow: they share the quota, however many callers each has",
	Queues: true, Guards: true, Bursts: true, Ceils: true, Tokens: true,
	Open: func(s Setup) (Acquirer, error) {
		opts := []fairlimit.Option{fairlimit.WithFlow(cmp.Or(s.Flow, "a client"), 1)}
		if s.Ceiling.Permits > 0 {
			opts = append(opts, fairlimit.WithFlowQuota(s.Ceiling))
		}
		return openFair(s, opts...)
	},
}

var windowEngine = Engine{
	Name:  "window",
	About: "Redisson's sliding window: a refused caller sleeps and asks again, with all the others",
	Open:  func(s Setup) (Acquirer, error) { return record(window.New, s) },
}

func openFair(s Setup, opts ...fairlimit.Option) (Acquirer, error) {
	opts = append(opts, fairlimit.WithGuard(s.Guard))
	if s.Output > 0 {
		opts = append(opts,
			fairlimit.WithUnit("input", scenario.Quota{Permits: s.Input, Per: s.Quota.Per}),
			fairlimit.WithUnit("output", scenario.Quota{Permits: s.Output, Per: s.Quota.Per}))
	}
	return record(fair.New, s, opts...)
}

var chainedEngine = Engine{
	Name:   "chained",
	About:  "a queue of fair for each unit, one behind the other; nothing is settled",
	Guards: true, Tokens: true, NoCalls: true,
	Open: func(s Setup) (Acquirer, error) {
		return chained(s, func(name string, q scenario.Quota) (Acquirer, error) {
			s.Name, s.Quota, s.Input, s.Output = name, q, 0, 0
			return openFair(s)
		})
	},
}
