package scenario

import "context"

var reset = Scenario{
	Name:   "reset",
	About:  "saturated, and somebody resets the limiter in the middle of the backlog",
	Shows:  "whether those who waited line up again",
	Steers: true,
	Within: soon,
	Behave: steady.Behave,
	Incidents: []Incident{{
		At: 0.4, What: "somebody reset the limiter, where that is possible",
		Do: func(ctx context.Context, stage Stage) error { return stage.Reset(ctx) },
	}},
}
