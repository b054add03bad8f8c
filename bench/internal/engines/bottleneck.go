package engines

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// Bottleneck is a library for Node.js. This is its algorithm in a cluster, from
// the chapters Group, chain(), Reservoir Intervals and Clustering of
// https://github.com/SGrondin/bottleneck#readme: each process has a queue of its
// own, and its jobs run in order. The first one asks Redis for a place in the
// reservoir, which is filled up at fixed intervals. A client's limiter of a Group
// is chained to the common one: a job that may run is queued there as well.
var bottleneckEngine = Engine{
	Name:  "bottleneck",
	About: "Bottleneck's Group, as described: a reservoir for each client, chained to one for all",
	Ceils: true,
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		return chained(name, l, func(key string, q scenario.Quota) Acquirer {
			settings := []any{q.Permits, q.Per.Milliseconds(), 0} // a reservoir
			if q.Permits == 1 {
				settings = []any{0, 0, q.Per.Milliseconds()} // a minTime
			}
			return &bottleneck{rdb, key, settings, now, make(queue, 1)}
		}), nil
	},
}

//go:embed bottleneck.lua
var bottleneckText string

var bottleneckScript = redis.NewScript(bottleneckText)

type bottleneck struct {
	rdb      redis.UniversalClient
	key      string
	settings []any
	now      func() time.Duration
	queue    queue
}

func (b *bottleneck) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	turn, err := b.register(ctx, n)
	if err != nil {
		return nil, err
	}
	return turn, clock.Sleep(ctx, turn.Wait)
}

// register returns once there is a place for the job, which is the first in line
// meanwhile.
func (b *bottleneck) register(ctx context.Context, n int) (*measure.Turn, error) {
	if err := b.queue.enter(ctx); err != nil {
		return nil, err
	}
	defer b.queue.leave()
	return poll(ctx, n, b.now, func() (bool, time.Duration, error) {
		got, err := bottleneckScript.Run(ctx, b.rdb, []string{b.key}, append(b.settings, n)...).Int64Slice()
		if err != nil {
			return false, 0, err
		}
		return got[0] == 1, time.Duration(got[1]) * time.Millisecond, nil
	})
}
