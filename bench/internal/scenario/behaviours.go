package scenario

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

var steady = Scenario{
	Name:   "steady",
	About:  "saturated: everybody calls again as soon as it got through",
	Behave: again(func(ctx context.Context, me Caller) { me.Call(ctx, 1, nil) }),
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
	About: "idle, then everybody at once for three quotas or more, and again",
	Behave: func(ctx context.Context, me Caller) {
		callers, permits := me.Load.Clients*me.Load.Callers, me.Load.Quota.Permits
		calls := (3*permits + callers - 1) / callers
		every := me.Load.Period() * time.Duration(2+calls*callers/permits)
		for next := time.Now(); sleep(ctx, time.Until(next)); next = next.Add(every) {
			for range calls {
				me.Call(ctx, 1, nil)
			}
		}
	},
}

var greedy = Scenario{
	Name:  "greedy",
	About: "one client has fifty callers, the others have one each",
	// Permits go one by one, so that one caller can use a fair share.
	Load:   Load{Quota: Quota{Permits: 20, Per: Default.Quota.Per, Burst: 1}, Clients: 10, Callers: 1},
	Crowd:  50,
	Behave: steady.Behave,
}

var trickle = Scenario{
	Name:  "trickle",
	About: "calls at random moments that want 90 % of the quota",
	Behave: func(ctx context.Context, me Caller) {
		pace(ctx, me, 0.9, func() { me.Call(ctx, 1, nil) })
	},
}

var weighted = Scenario{
	Name:  "weighted",
	About: "saturated, and each call asks for 1 to 5 permits",
	Behave: again(func(ctx context.Context, me Caller) {
		most := min(5, cmp.Or(me.Load.Quota.Burst, me.Load.Quota.Permits))
		me.Call(ctx, 1+me.Rand.IntN(most), nil)
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
			me.Call(patient, 1, nil)
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
			me.Call(ctx, 1, nil)
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
	me.Call(ctx, 1, nil)
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

var laggy = Scenario{
	Name:  "laggy",
	About: "saturated, and what Redis answers is held up for 0.2 to 200 ms, with a heavy tail",
	// The delays of the replies are part of what the guard must cover.
	Load:    Load{Guard: 250 * time.Millisecond},
	Replies: Delay{Least: 200 * time.Microsecond, Most: 200 * time.Millisecond},
	Behave:  steady.Behave,
}

// Delay is a distribution with a heavy tail: Pareto's with the exponent 1/2,
// bounded on both sides. From 0.2 to 200 ms, half of all are under 0.8 ms, one
// in ten is over 12 ms and one in a hundred over 117 ms.
type Delay struct{ Least, Most time.Duration }

// Draw is the delay for a number drawn from 0 to 1.
func (d Delay) Draw(uniform float64) time.Duration {
	low, high := 1/math.Sqrt(float64(d.Least)), 1/math.Sqrt(float64(d.Most))
	x := low - uniform*(low-high)
	return time.Duration(1 / (x * x))
}

// Shares is the goal where each client is a flow. It is for fair+flows.
type Shares struct {
	Least measure.Part // part of all permits that the worst-off client is to get
	Used  measure.Part // part of the quota that is to be used
}

// few are the scenarios in which a client with few callers shares a quota with
// one that has many. What a share is worth depends on the quota's shape.
func few() (all []Scenario) {
	for _, callers := range []int{3, 1} {
		goal := Shares{Least: 0.47, Used: 0.97}
		if callers == 1 {
			goal.Least = 0.4
		}
		for _, shape := range []struct {
			name  string
			quota Quota
			guard time.Duration
		}{
			// Of so short a window a twentieth is less than timers vary.
			{"every", Quota{Permits: 1, Per: 50 * time.Millisecond}, 10 * time.Millisecond},
			{"second", Quota{Permits: 20, Per: time.Second}, 0},
			{"burst", Quota{Permits: 20, Per: time.Second, Burst: 5}, 0},
		} {
			all = append(all, Scenario{
				Name:  fmt.Sprintf("few-%d-%s", callers, shape.name),
				About: fmt.Sprintf("one client has 200 callers, another has %d", callers),
				Load: Load{
					Quota: shape.quota, Guard: shape.guard, Clients: 2, Callers: callers, Duration: 20 * time.Second,
				},
				Engines: "fair+flows,redis_rate",
				Shares:  &goal,
				Crowd:   200,
				Behave:  steady.Behave,
			})
		}
	}
	return all
}
