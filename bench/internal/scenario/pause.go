package scenario

import (
	"context"
	"time"
)

// pausePart is the part of the run for which the upstream is closed.
const pausePart = 0.25

var pause = Scenario{
	Name:   "pause",
	About:  "saturated, and for a quarter of the run the upstream wants nobody: it answers 429 with Retry-After",
	Shows:  "how many run into the closed door, and how soon the quota is used again",
	Load:   Load{Clients: 12, Callers: 3},
	Steers: true,
	Within: soon,
	Behave: steady.Behave,
	Incidents: []Incident{{
		At: 0.4, What: "the upstream closed for a quarter of the run",
		Do: func(_ context.Context, stage Stage) error {
			stage.CloseUpstream(part(stage.Load().Duration, pausePart))
			return nil
		},
	}},
}

// soon is a quarter of a second in a run of 12 s. With the default of a whole
// one, most of those asleep would go before they have to hear of anything.
func soon(l Load) time.Duration { return l.Duration / 48 }
