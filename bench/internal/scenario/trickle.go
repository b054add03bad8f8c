package scenario

import "context"

// trickleLoad is the part of the quota that is wanted.
const trickleLoad = 0.9

var trickle = Scenario{
	Name:  "trickle",
	About: "calls at random moments that want 90 % of the quota",
	Behave: func(ctx context.Context, me Caller) {
		pace(ctx, me, trickleLoad, func() { me.Call(ctx, 1) })
	},
}
