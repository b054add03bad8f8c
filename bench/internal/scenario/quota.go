package scenario

import (
	"context"
	"fmt"
)

var quota = Scenario{
	Name:  "quota",
	About: "saturated, and the quota is halved, and then made four times that, while everybody goes on",
	Shows: "how soon the whole new quota is used",
	// What goes at one moment must fit into the narrower quota. Turns that are
	// held when it becomes wider keep their slots, so there are few.
	Load: Load{
		Quota: Quota{Permits: 20, Per: Default.Quota.Per, Burst: 5}, Callers: 4, Stored: true,
	},
	Steers:    true,
	Within:    soon,
	Behave:    steady.Behave,
	Incidents: []Incident{requote(0.3, 1, 2), requote(0.65, 2, 1)},
}

// requote changes the quota to a multiple of the first.
func requote(at float64, times, over int) Incident {
	return Incident{
		At: at, What: fmt.Sprintf("the quota became %d/%d of what it was first", times, over),
		Do: func(ctx context.Context, stage Stage) error {
			q := stage.Load().Quota
			q.Permits = max(1, q.Permits*times/over)
			q.Burst = min(q.Burst, q.Permits)
			return stage.SetQuota(ctx, q, times > over)
		},
	}
}
