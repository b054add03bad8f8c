package scenario

import "context"

// The impatient want twice the quota and wait for half a period, so that about
// every other call is in vain.
const (
	impatientLoad     = 2
	impatientPatience = 0.5
)

var impatient = Scenario{
	Name:  "impatient",
	About: "twice the quota is wanted, with deadlines so short that half of the calls are refused",
	Behave: func(ctx context.Context, me Caller) {
		pace(ctx, me, impatientLoad, func() {
			// The call has a deadline of its own, apart from the end of the
			// run.
			patient, cancel := context.WithTimeout(ctx, part(me.Load.Period(), impatientPatience))
			defer cancel()
			me.Call(patient, 1)
		})
	},
}
