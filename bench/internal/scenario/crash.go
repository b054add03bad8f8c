package scenario

import "context"

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
