package engines

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// Clockwork is no limiter: everybody goes at moments that the clock alone
// decides, after a question of Redis like any other's. It is for a rehearsal:
// what delays its callers is the machine.
var Clockwork = Engine{
	Name:   "clockwork",
	Queues: true,
	Open: func(rdb redis.UniversalClient, _ string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		callers := l.Clients * l.Callers
		return &clockwork{rdb: rdb, now: now, groups: int64((callers + l.Quota.Permits - 1) / l.Quota.Permits)}, nil
	},
	Keys: func(string) []string { return nil },
}

// pitch is the time from one moment to go to the next.
const pitch = 50 * time.Millisecond

// clockwork lets callers go in turn at the moments, so that not many more than
// the quota allows go at one.
type clockwork struct {
	rdb    redis.UniversalClient
	now    func() time.Duration
	groups int64
	calls  atomic.Int64
}

func (c *clockwork) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	turn := measure.Turn{Permits: n, Sent: c.now()}
	if err := c.rdb.Time(ctx).Err(); err != nil {
		return nil, err
	}
	turn.Replied = c.now()
	round := pitch * time.Duration(c.groups)
	due := turn.Replied.Truncate(round) + pitch*time.Duration(c.calls.Add(1)%c.groups)
	if due <= turn.Replied {
		due += round
	}
	turn.Wait = due - turn.Replied
	return &turn, clock.Sleep(ctx, turn.Wait)
}
