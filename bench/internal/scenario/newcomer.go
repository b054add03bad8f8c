package scenario

import (
	"context"
)

// The batch is ten quotas long, and has no more callers than that.
const (
	batchQuotas = 10
	batchMost   = 1000
)

// newcomerPause is how long the newcomer is away between two calls, as a part of
// the run.
const newcomerPause = 0.08

var newcomer = Scenario{
	Name:  "newcomer",
	About: "one client has a thousand callers in line, and now and then another makes one call",
	// How far flows look ahead follows from what may go at one moment.
	Load: Load{
		Quota: Quota{Permits: 100, Per: Default.Quota.Per, Burst: 10}, Clients: 2, Callers: 1,
	},
	Callers: func(l Load, client int) int {
		if client == 0 {
			return min(batchMost, batchQuotas*l.Quota.Permits)
		}
		return l.Callers
	},
	Behave: func(ctx context.Context, me Caller) {
		if me.Client == 0 {
			steady.Behave(ctx, me)
			return
		}
		for sleep(ctx, part(me.Load.Duration, newcomerPause)) {
			me.Call(ctx, 1)
		}
	},
}
