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
		var chain bottlenecks
		if l.Ceiling.Permits > 0 {
			chain = append(chain, newBottleneck(rdb, name+":"+l.Flow, l.Ceiling, now))
		}
		return append(chain, newBottleneck(rdb, name, l.Quota, now)), nil
	},
}

//go:embed bottleneck.lua
var bottleneckText string

var bottleneckScript = redis.NewScript(bottleneckText)

// bottlenecks are limiters, each chained to the next.
type bottlenecks []*bottleneck

func (b bottlenecks) Acquire(ctx context.Context, n int) (turn *measure.Turn, err error) {
	for _, limiter := range b {
		if turn, err = limiter.acquire(ctx, n); err != nil {
			return nil, err
		}
	}
	return turn, nil
}

type bottleneck struct {
	rdb   redis.UniversalClient
	name  string
	args  []any
	now   func() time.Duration
	queue queue
}

// newBottleneck has a reservoir. A quota of one permit is a minTime instead.
func newBottleneck(rdb redis.UniversalClient, name string, q scenario.Quota, now func() time.Duration) *bottleneck {
	args := []any{q.Permits, q.Per.Milliseconds(), 0}
	if q.Permits == 1 {
		args = []any{0, 0, q.Per.Milliseconds()}
	}
	return &bottleneck{rdb, name, args, now, newQueue()}
}

func (b *bottleneck) acquire(ctx context.Context, n int) (*measure.Turn, error) {
	turn, err := b.register(ctx, n)
	if err != nil {
		return nil, err
	}
	return turn, clock.Sleep(ctx, turn.Wait)
}

// register returns once there is a place for the job.
func (b *bottleneck) register(ctx context.Context, n int) (*measure.Turn, error) {
	if err := b.queue.enter(ctx); err != nil {
		return nil, err
	}
	defer b.queue.leave()
	for {
		sent := b.now()
		got, err := bottleneckScript.Run(ctx, b.rdb, []string{b.name}, append(b.args, n)...).Int64Slice()
		if err != nil {
			return nil, err
		}
		wait := time.Duration(got[1]) * time.Millisecond
		if got[0] == 1 {
			return &measure.Turn{Permits: n, Sent: sent, Replied: b.now(), Wait: wait}, nil
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// queue is that of a process: who came first is served first.
type queue chan struct{}

func newQueue() queue { return make(queue, 1) }

func (q queue) enter(ctx context.Context) error {
	select {
	case q <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q queue) leave() { <-q }
