package scenario

import (
	"cmp"
	"context"
)

// heaviest is the most permits that a call asks for, if the quota has as many.
const heaviest = 5

var weighted = Scenario{
	Name:  "weighted",
	About: "saturated, and each call asks for 1 to 5 permits",
	Behave: func(ctx context.Context, me Caller) {
		most := min(heaviest, cmp.Or(me.Load.Quota.Burst, me.Load.Quota.Permits))
		for ctx.Err() == nil {
			me.Call(ctx, 1+me.Rand.IntN(most))
		}
	},
}
