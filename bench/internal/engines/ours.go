package engines

import (
	"cmp"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/window"
)

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
	if s.Late != nil {
		// In virtual time it is chance who asks for the others whether something
		// was done to the queue.
		opts = append(opts, fairlimit.WithPauseWithin(0))
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
