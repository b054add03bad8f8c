package scenario

import (
	"context"
	"time"
)

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
