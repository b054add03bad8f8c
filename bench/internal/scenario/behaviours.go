package scenario

import (
	"cmp"
	"context"
	"time"
)

var steady = Scenario{
	Name:   "steady",
	About:  "saturated: everybody calls again as soon as it got through",
	Behave: again(func(ctx context.Context, me Caller) { me.Call(ctx, 1) }),
}

// again is to call again and again.
func again(call func(context.Context, Caller)) func(context.Context, Caller) {
	return func(ctx context.Context, me Caller) {
		for ctx.Err() == nil {
			call(ctx, me)
		}
	}
}

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
// from one burst to the next. A burst asks for three quotas, or for as many as
// give everybody a call. Then nobody calls for two periods.
func burstOf(l Load, caller int) (calls int, every time.Duration) {
	callers := l.Clients * l.Callers
	quotas := max(3, (callers+l.Quota.Permits-1)/l.Quota.Permits)
	calls = quotas * l.Quota.Permits / callers
	if caller < quotas*l.Quota.Permits%callers {
		calls++
	}
	return calls, time.Duration(quotas+2) * l.Period()
}

var greedy = Scenario{
	Name:  "greedy",
	About: "one client has fifty callers, the others have one each",
	// A client with one caller can hold no more than one permit ahead. So that it
	// is a fair share, permits go one by one, and flows do not look far ahead.
	Load:    Load{Quota: Quota{Permits: 20, Per: Default.Quota.Per, Burst: 1}, Clients: 10, Callers: 1},
	Callers: first(func(l Load) int { return 50 * l.Callers }),
	Behave:  steady.Behave,
}

// first gives the first client another number of callers than the others.
func first(of func(Load) int) func(l Load, client int) int {
	return func(l Load, client int) int {
		if client == 0 {
			return of(l)
		}
		return l.Callers
	}
}

var newcomer = Scenario{
	Name:  "newcomer",
	About: "one client has a thousand callers in line, and now and then another makes one call",
	// How far flows look ahead follows from what may go at one moment.
	Load:    Load{Quota: Quota{Permits: 100, Per: Default.Quota.Per, Burst: 10}, Clients: 2, Callers: 1},
	Callers: first(func(l Load) int { return min(1000, 10*l.Quota.Permits) }),
	Behave: func(ctx context.Context, me Caller) {
		if me.Client == 0 {
			steady.Behave(ctx, me)
			return
		}
		for sleep(ctx, part(me.Load.Duration, 0.08)) {
			me.Call(ctx, 1)
		}
	},
}

var trickle = Scenario{
	Name:  "trickle",
	About: "calls at random moments that want 90 % of the quota",
	Behave: func(ctx context.Context, me Caller) {
		pace(ctx, me, 0.9, func() { me.Call(ctx, 1) })
	},
}

var weighted = Scenario{
	Name:  "weighted",
	About: "saturated, and each call asks for 1 to 5 permits",
	Behave: again(func(ctx context.Context, me Caller) {
		most := min(5, cmp.Or(me.Load.Quota.Burst, me.Load.Quota.Permits))
		me.Call(ctx, 1+me.Rand.IntN(most))
	}),
}

var impatient = Scenario{
	Name:  "impatient",
	About: "twice the quota is wanted, with deadlines so short that half of the calls are refused",
	Behave: func(ctx context.Context, me Caller) {
		pace(ctx, me, 2, func() {
			// The call has a deadline of its own, apart from the end of the
			// run.
			patient, cancel := context.WithTimeout(ctx, me.Load.Period()/2)
			defer cancel()
			me.Call(patient, 1)
		})
	},
}

var fickle = Scenario{
	Name:  "fickle",
	About: "saturated, and 30 % of the calls are given up at a random moment of their wait",
	Behave: again(func(ctx context.Context, me Caller) {
		if me.Rand.Float64() < 0.3 {
			giveUp(ctx, me)
		} else {
			me.Call(ctx, 1)
		}
	}),
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
