package scenario

import (
	"math"
	"time"
)

// Incident is something that happens while the callers go on as if it did not.
type Incident struct {
	At   float64 // the part of the run that is over by then
	What Deed
}

// Deed is what can happen, as the report tells it. It befalls the last client,
// so that the first, which scenarios may treat differently, is spared.
type Deed string

const (
	Kill    Deed = "the last client was killed" // with nothing put in order
	Suspend Deed = "the last client fell asleep"
	Resume  Deed = "the last client woke up"
	Restart Deed = "Redis was restarted and had forgotten everything"
)

// RedisAway is how long there is no Redis when it is restarted.
const RedisAway = 500 * time.Millisecond

// Breaks reports whether something happens in the scenario that only real
// processes and servers can go through.
func (s Scenario) Breaks() bool { return len(s.Incidents) > 0 }

var crash = Scenario{
	Name:      "crash",
	About:     "saturated, and one client is killed while its callers wait",
	Shows:     "how long the turns of the dead keep the living waiting",
	Behave:    steady.Behave,
	Incidents: []Incident{{0.4, Kill}},
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

var restart = Scenario{
	Name:   "restart",
	About:  "saturated, and Redis is away for half a second and comes back empty",
	Shows:  "how many calls fail, and by how much the quota is broken by those who hold turns that Redis forgot",
	Behave: steady.Behave,

	Unjudged:  true,
	EndsRedis: true,
	Incidents: []Incident{{0.5, Restart}},
}

var onoff = Scenario{
	Name:      "onoff",
	About:     "saturated, and one client's process is put to sleep twice while its callers wait",
	Shows:     "what a process that misses its turns loses, and what it does when it wakes",
	Behave:    steady.Behave,
	Incidents: []Incident{{0.2, Suspend}, {0.4, Resume}, {0.6, Suspend}, {0.8, Resume}},
}
