package picture

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/whereis"
)

// What a picture is made of.
type (
	State   = fair.State
	UnitLog = fair.UnitLog
	Cell    = fair.Cell
)

// Inspect is that of package fair, which knows of no stored quotas without a
// queue. It returns nil if there is neither.
func Inspect(ctx context.Context, rdb redis.UniversalClient, name, prefix string) (*State, error) {
	state, err := fair.Inspect(ctx, rdb, name, fair.WithPrefix(prefix))
	if err == nil && state == nil {
		var stored string
		stored, err = rdb.Get(ctx, prefix+"{"+name+"}:quota").Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		state = &State{Now: time.Now(), Stored: stored}
	}
	if err != nil && !errors.As(err, new(redis.Error)) && !errors.Is(err, fairlimit.ErrState) {
		err = whereis.Of(rdb, err, false)
	}
	return state, err
}
