package scenario

import (
	"context"
	"math"
	"time"
)

// Incident is something that happens while the callers go on as if it did not.
type Incident struct {
	At   float64 // the part of the run that is over by then
	What string  // as the report tells it
	Do   func(ctx context.Context, stage Stage) error
}

// Stage is what an incident can happen to.
type Stage interface {
	Clients() int
	Kill(client int) error    // at once, with nothing put in order
	Suspend(client int) error // the process stands still, and time goes on
	Resume(client int) error

	// RestartRedis ends the server with all that it holds, and starts an empty
	// one in its place after a while.
	RestartRedis(ctx context.Context, away time.Duration) error
}

// Breaks reports whether something happens in the scenario that only real
// processes and servers can go through.
func (s Scenario) Breaks() bool { return len(s.Incidents) > 0 }

// lastClient is the one that incidents happen to, so that the first, which
// scenarios may treat differently, is spared.
func lastClient(stage Stage) int { return stage.Clients() - 1 }

var crash = Scenario{
	Name:   "crash",
	About:  "saturated, and one client is killed while its callers wait",
	Shows:  "how long the turns of the dead keep the living waiting",
	Behave: steady.Behave,
	Incidents: []Incident{{
		At: 0.4, What: "the last client was killed",
		Do: func(_ context.Context, stage Stage) error { return stage.Kill(lastClient(stage)) },
	}},
}

var laggy = Scenario{
	Name:  "laggy",
	About: "saturated, and what Redis answers is held up for 0.2 to 200 ms, with a heavy tail",
	// A caller goes when its reply is there, so the delays of the replies are
	// part of the spread that the guard must cover.
	Load:    Load{Guard: 250 * time.Millisecond},
	Replies: &Delay{Least: 200 * time.Microsecond, Most: 200 * time.Millisecond},
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

// redisAway is how long there is no Redis.
const redisAway = 500 * time.Millisecond

var restart = Scenario{
	Name:   "restart",
	About:  "saturated, and Redis is away for half a second and comes back empty",
	Shows:  "how many calls fail, and by how much the quota is broken by those who hold turns that Redis forgot",
	Behave: steady.Behave,

	Unjudged:  true,
	EndsRedis: true,
	Incidents: []Incident{{
		At: 0.5, What: "Redis was restarted and had forgotten everything",
		Do: func(ctx context.Context, stage Stage) error { return stage.RestartRedis(ctx, redisAway) },
	}},
}

var onoff = Scenario{
	Name:      "onoff",
	About:     "saturated, and one client's process is put to sleep twice while its callers wait",
	Shows:     "what a process that misses its turns loses, and what it does when it wakes",
	Behave:    steady.Behave,
	Incidents: []Incident{asleep(0.2), awake(0.4), asleep(0.6), awake(0.8)},
}

func asleep(at float64) Incident {
	return Incident{At: at, What: "the last client fell asleep", Do: func(_ context.Context, stage Stage) error {
		return stage.Suspend(lastClient(stage))
	}}
}

func awake(at float64) Incident {
	return Incident{At: at, What: "the last client woke up", Do: func(_ context.Context, stage Stage) error {
		return stage.Resume(lastClient(stage))
	}}
}
