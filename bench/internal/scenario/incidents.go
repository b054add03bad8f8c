package scenario

import (
	"cmp"
	"context"
	"math"
	"time"
)

// Incident is something that happens while the callers go on as if it did not.
type Incident struct {
	At   float64 // the part of the run that is over by then
	What Deed

	// Phase says that a phase of the run begins, in which the quota is so many
	// times that of the load.
	Phase float64
}

// Permits are those of the quota from the incident on.
func (i Incident) Permits(l Load) int {
	return int(math.Round(cmp.Or(i.Phase, 1) * float64(l.Quota.Permits)))
}

// Deed is what can happen, as the report tells it. It befalls the first client,
// which has the crowd if there is one.
type Deed string

const (
	Kill    Deed = "the first client was killed" // with nothing put in order
	Suspend Deed = "the first client fell asleep"
	Resume  Deed = "the first client woke up"
	Restart Deed = "Redis was restarted and had forgotten everything"

	// What these are like depends on the engine.
	Rescue Deed = "somebody helped those who wait"
	Change Deed = "the quota changed"

	Silence Deed = "the upstream's quota changed, and nobody was told"
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
	Incidents: []Incident{{At: 0.4, What: Kill}},
}

var restart = Scenario{
	Name:   "restart",
	About:  "saturated, and Redis is away for half a second and comes back empty",
	Shows:  "how many calls fail, and by how much the quota is broken by those who hold turns that Redis forgot",
	Behave: steady.Behave,

	EndsRedis: true, NoVerdict: true,
	Incidents: []Incident{{At: 0.5, What: Restart}},
}

var onoff = Scenario{
	Name:   "onoff",
	About:  "saturated, and one client's process is put to sleep twice while its callers wait",
	Shows:  "what a process that misses its turns loses, and what it does when it wakes",
	Behave: steady.Behave,
	Incidents: []Incident{
		{At: 0.2, What: Suspend},
		{At: 0.4, What: Resume},
		{At: 0.6, What: Suspend},
		{At: 0.8, What: Resume},
	},
}

var killed = Scenario{
	Name:      "killed",
	About:     "saturated, and a client is killed that has fifty turns in the queue",
	Shows:     "how long the others wait, if somebody helps and if not",
	Load:      Load{Clients: 4, Callers: 4},
	Engines:   "fair,fair+requeue,window,redis_rate",
	Crowd:     50,
	Behave:    steady.Behave,
	Incidents: []Incident{{At: 0.5, What: Kill, Phase: 1}, {At: 0.52, What: Rescue}},
}

var changed = Scenario{
	Name:      "changed",
	About:     "a hundred callers wait, and the quota becomes wider and then narrower",
	Shows:     "when the last of them goes, and what the windows hold once everybody has heard of the change",
	Load:      Load{Quota: Quota{Permits: 10, Per: time.Second}, Clients: 4, Callers: 25, Duration: 16 * time.Second},
	Engines:   "fair+stored,window,redis_rate",
	NoVerdict: true,
	Behave: func(ctx context.Context, me Caller) { // one after the other
		rank := me.Number*me.Load.Clients + me.Client
		if sleep(ctx, part(me.Load.Duration, 0.1*float64(rank)/float64(me.Load.Clients*me.Load.Callers))) {
			me.Call(ctx, 1, nil)
		}
	},
	Incidents: []Incident{{At: 0.125, What: Change, Phase: 2}, {At: 0.25, What: Change, Phase: 0.5}},
}

// All processes together learn once a minute.
var learns = Scenario{
	Name:      "learns",
	About:     "saturated, and the upstream announces a narrower quota, and later a wider one",
	Shows:     "what goes in the first seconds after a change, and how many calls are turned away",
	Load:      Load{Duration: 80 * time.Second},
	Engines:   "fair+learn,fair",
	NoVerdict: true,
	Behave:    steady.Behave,
	Incidents: []Incident{{At: 0.1, What: Silence, Phase: 0.5}, {At: 0.9, What: Silence, Phase: 1.5}},
}
