package scenario

import "context"

var steady = Scenario{
	Name:  "steady",
	About: "saturated: everybody calls again as soon as it got through",
	Behave: func(ctx context.Context, me Caller) {
		for ctx.Err() == nil {
			me.Call(ctx, 1)
		}
	},
}
