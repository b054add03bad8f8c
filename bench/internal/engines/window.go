package engines

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/window"
)

var windowEngine = Engine{
	Name:   "window",
	About:  "Redisson's sliding window: a refused caller sleeps and asks again, with all the others",
	ByHand: pausedByHand,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		return record(window.New, rdb, name, l, now)
	},
	Keys: func(name string) []string { return []string{name, "{" + name + "}:value", "{" + name + "}:permits"} },
}
