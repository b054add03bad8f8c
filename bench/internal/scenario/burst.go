package scenario

import (
	"context"
	"time"
)

// A burst asks for this many quotas, or for as many as give everybody a call;
// idleness between two lasts this many periods.
const (
	burstQuotas = 3
	burstIdle   = 2
)

var burst = Scenario{
	Name:  "burst",
	About: "idle, then everybody at once for three quotas, and again",
	Behave: func(ctx context.Context, me Caller) {
		calls, every := burstOf(me.Load, me.Number*me.Load.Clients+me.Client)
		for next := time.Now(); sleep(ctx, time.Until(next)); next = next.Add(every) {
			for range calls {
				me.Call(ctx, 1)
			}
		}
	},
}

// burstOf is how many calls one of all callers makes in a burst, and the time
// from one burst to the next.
func burstOf(l Load, caller int) (calls int, every time.Duration) {
	callers := l.Clients * l.Callers
	quotas := max(burstQuotas, (callers+l.Quota.Permits-1)/l.Quota.Permits)
	calls = quotas * l.Quota.Permits / callers
	if caller < quotas*l.Quota.Permits%callers {
		calls++
	}
	return calls, time.Duration(quotas+burstIdle) * l.Period()
}
