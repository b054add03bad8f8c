package engines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// ErrRefused says that an engine refused a caller at once because its turn
// would come after its deadline.
var ErrRefused = errors.New("refused: the turn would come too late")

var localEngine = Engine{
	Name: "local",
	About: "golang.org/x/time/rate in each process, with the quota divided by hand: " +
		"what people do without a shared limiter",
	Open: func(_ redis.UniversalClient, _ string, l scenario.Load, _ func() time.Duration) (Acquirer, error) {
		every, burst := divided(l.Quota, l.Clients)
		return &local{rate.NewLimiter(every, burst), l.Clients}, nil
	},
	Keys: func(string) []string { return nil },
}

// local knows how many processes there are and nothing else of them.
type local struct {
	limiter *rate.Limiter
	clients int
}

// divided is a process's part of the quota.
func divided(q scenario.Quota, clients int) (rate.Limit, int) {
	interval := q.Per * time.Duration(clients) / time.Duration(q.Permits)
	return rate.Every(interval), max(1, q.Permits/clients)
}

// Acquire takes the permits in several pieces if they are more than this
// process's share at once. There is no other way.
func (l *local) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	for n > 0 {
		piece := min(n, l.limiter.Burst())
		if err := l.limiter.WaitN(ctx, piece); err != nil {
			if ctx.Err() == nil { // it has no error of its own to match
				err = fmt.Errorf("%w: %w", ErrRefused, err)
			}
			return nil, err
		}
		n -= piece
	}
	return nil, nil
}
