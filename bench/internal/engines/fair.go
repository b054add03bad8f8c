package engines

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/fair"
)

var fairEngine = Engine{
	Name:   "fair",
	About:  "the reservation queue: one question, one sleep, first come first served",
	Queues: true,
	Guards: true,
	Bursts: true,
	Open: func(rdb redis.UniversalClient, name string, l load.Load, now func() time.Duration) (Acquirer, error) {
		return record(fair.New, rdb, name, l, now, fairlimit.WithGuard(l.Guard))
	},
	Keys: func(name string) []string { return []string{"fairlimit:{" + name + "}"} },
}
