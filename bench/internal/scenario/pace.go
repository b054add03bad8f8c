package scenario

import (
	"context"
	"time"
)

// pace lets a caller call at random moments, so often that all callers together
// want the given part of what the quota allows. Moments that pass while it
// waits are made up for at once, so that the load does not depend on the
// limiter.
func pace(ctx context.Context, me Caller, part float64, call func()) {
	callers := float64(me.Load.Clients * me.Load.Callers)
	mean := float64(me.Load.Period()) * callers / (part * float64(me.Load.Quota.Permits))
	for next := time.Now(); ; call() {
		next = next.Add(time.Duration(me.Rand.ExpFloat64() * mean))
		if !sleep(ctx, time.Until(next)) {
			return
		}
	}
}
