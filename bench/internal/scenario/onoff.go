package scenario

import "context"

var onoff = Scenario{
	Name:      "onoff",
	About:     "saturated, and one client's process is put to sleep twice while its callers wait",
	Shows:     "what a process that misses its turns loses, and what it does when it wakes",
	Wakes:     true,
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
