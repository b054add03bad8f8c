package scenario

import (
	"context"
	"time"
)

// fickleness is the part of the calls that are given up.
const fickleness = 0.3

var fickle = Scenario{
	Name:  "fickle",
	About: "saturated, and 30 % of the calls are given up at a random moment of their wait",
	Behave: func(ctx context.Context, me Caller) {
		for ctx.Err() == nil {
			if me.Rand.Float64() < fickleness {
				giveUp(ctx, me)
			} else {
				me.Call(ctx, 1)
			}
		}
	},
}

// giveUp calls and leaves at some moment before everybody who may be ahead has
// been served.
func giveUp(ctx context.Context, me Caller) {
	everybody := float64(me.Load.Clients*me.Load.Callers) / float64(me.Load.Quota.Permits)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leave := time.AfterFunc(part(me.Load.Period(), me.Rand.Float64()*everybody), cancel)
	defer leave.Stop()
	me.Call(ctx, 1)
}
