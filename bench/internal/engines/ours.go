package engines

import (
	"cmp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/window"
)

var fairEngine = Engine{
	Name:   "fair",
	About:  "the reservation queue: one question, one sleep, first come first served",
	Queues: true, Guards: true, Bursts: true, Tokens: true,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		return openFair(rdb, name, l, now)
	},
}

var flowsEngine = Engine{
	Name:   "fair+flows",
	About:  "fair with each client a flow: they share the quota, however many callers each has",
	Queues: true, Guards: true, Bursts: true, Ceils: true, Tokens: true,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		opts := []fairlimit.Option{fairlimit.WithFlow(cmp.Or(l.Flow, "a client"), 1)}
		if l.Ceiling.Permits > 0 {
			opts = append(opts, fairlimit.WithFlowQuota(fairlimit.Quota(l.Ceiling)))
		}
		return openFair(rdb, name, l, now, opts...)
	},
}

var windowEngine = Engine{
	Name:  "window",
	About: "Redisson's sliding window: a refused caller sleeps and asks again, with all the others",
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		return record(window.New, rdb, name, l, now)
	},
}

func openFair(
	rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration, opts ...fairlimit.Option,
) (Acquirer, error) {
	opts = append(opts, fairlimit.WithGuard(l.Guard))
	if l.Output > 0 {
		opts = append(opts,
			fairlimit.WithUnit("input", fairlimit.Quota{Permits: l.Input, Per: l.Quota.Per}),
			fairlimit.WithUnit("output", fairlimit.Quota{Permits: l.Output, Per: l.Quota.Per}))
	}
	if l.Late != nil {
		// In virtual time it is chance who asks for the others whether something
		// was done to the queue.
		opts = append(opts, fairlimit.WithPauseWithin(0))
	}
	return record(fair.New, rdb, name, l, now, opts...)
}
