package engines

import (
	"cmp"
	"context"
	_ "embed"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
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
	Open: func(s Setup) (Acquirer, error) {
		return chained(s, func(key string, q scenario.Quota) (Acquirer, error) {
			settings := []any{q.Permits, q.Per.Milliseconds(), 0} // a reservoir
			if q.Permits == 1 {
				settings = []any{0, 0, q.Per.Milliseconds()} // a minTime
			}
			return &bottleneck{s, key, settings, make(queue, 1)}, nil
		})
	},
}

//go:embed bottleneck.lua
var bottleneckText string

var bottleneckScript = redis.NewScript(bottleneckText)

type bottleneck struct {
	Setup
	key      string
	settings []any
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
	return poll(ctx, n, func() (bool, time.Duration, error) {
		got, err := bottleneckScript.Run(ctx, b.Redis, []string{b.key}, append(b.settings, n)...).Int64Slice()
		if err != nil {
			return false, 0, err
		}
		return got[0] == 1, time.Duration(got[1]) * time.Millisecond, nil
	})
}

// BullMQ Pro is a job queue for Node.js. This is how it chooses the next job,
// from https://docs.bullmq.io/bullmq-pro/groups,
// https://docs.bullmq.io/bullmq-pro/groups/rate-limiting and
// https://docs.bullmq.io/guide/rate-limiting: groups take turns, and a group that
// had max jobs within a duration is passed over until that time is up, and so is
// the whole queue. Each client is a group, and each permit a job. Jobs are run by
// those who wait for them, not by workers, and ask Redis on their own.
var bullmqEngine = Engine{
	Name:  "bullmq",
	About: "BullMQ's groups, as described: they take turns, with a limit for each and one for all",
	Ceils: true,
	Open:  func(s Setup) (Acquirer, error) { return &bullmq{Setup: s, queue: make(queue, 1)}, nil },
}

//go:embed bullmq.lua
var bullmqText string

var bullmqScript = redis.NewScript(bullmqText)

type bullmq struct {
	Setup
	queue queue
	jobs  atomic.Int64
}

func (b *bullmq) Acquire(ctx context.Context, n int) (turn *measure.Turn, err error) {
	b.jobs.Add(int64(n))
	for left := n; left > 0; left-- {
		if turn, err = b.job(ctx); err != nil {
			b.jobs.Add(int64(-left))
			return nil, err
		}
		b.jobs.Add(-1)
	}
	turn.Permits = n
	return turn, nil
}

// job returns when the next job of the group may run.
func (b *bullmq) job(ctx context.Context) (*measure.Turn, error) {
	if err := b.queue.enter(ctx); err != nil {
		return nil, err
	}
	defer b.queue.leave()
	return poll(ctx, 1, func() (bool, time.Duration, error) {
		wait, err := bullmqScript.Run(ctx, b.Redis, []string{b.Name, b.Name + ":groups"},
			cmp.Or(b.Flow, "a client"), b.jobs.Load(), b.Quota.Permits, b.Quota.Per.Milliseconds(),
			b.Ceiling.Permits, b.Ceiling.Per.Milliseconds()).Int64()
		return wait == 0, time.Duration(wait) * time.Millisecond, err
	})
}

// queue is that of a process: who came first is served first.
type queue chan struct{}

func (q queue) enter(ctx context.Context) error {
	select {
	case q <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q queue) leave() { <-q }

var redisRateEngine = Engine{
	Name: "redis_rate",
	About: "go-redis/redis_rate in the loop that people write around it: " +
		"not allowed, so sleep RetryAfter and ask again",
	Bursts: true, Ceils: true, Tokens: true,
	Open: func(s Setup) (Acquirer, error) {
		return chained(s, func(key string, q scenario.Quota) (Acquirer, error) {
			limit := redis_rate.Limit{Rate: q.Permits, Burst: cmp.Or(q.Burst, q.Permits), Period: q.Per}
			return &redisRate{redis_rate.NewLimiter(s.Redis), key, limit}, nil
		})
	},
}

// redisRate waits as a program does that is only told "not now, perhaps in d".
// Nobody is in a queue: the first to ask after d gets the permit.
type redisRate struct {
	limiter *redis_rate.Limiter
	key     string
	limit   redis_rate.Limit
}

func (r *redisRate) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	return poll(ctx, n, func() (bool, time.Duration, error) {
		result, err := r.limiter.AllowN(ctx, r.key, r.limit, n)
		if err != nil || result.Allowed > 0 {
			return true, 0, err
		}
		return false, result.RetryAfter, nil
	})
}

// poll asks until the answer is yes, and sleeps in between for as long as it is
// told. With a yes comes the wait until the turn.
func poll(ctx context.Context, n int, ask func() (yes bool, wait time.Duration, err error)) (*measure.Turn, error) {
	for {
		sent := measure.Now()
		yes, wait, err := ask()
		switch {
		case err != nil:
			return nil, err
		case yes:
			return &measure.Turn{Permits: n, Sent: sent, Replied: measure.Now(), Wait: wait}, nil
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// rival is the algorithm of https://github.com/Ameyanagi/LLMRateLimiter, from its
// description: all units in one script, slots in the order of the questions, one
// sleep by the client's clock, and afterwards the output is adjusted at its old
// slot.
type rival struct {
	Setup
	ids atomic.Int64
}

var rivalEngine = Engine{
	Name:   "rival",
	About:  "LLMRateLimiter, as described: slots by the client's clock, and the output adjusted at its old slot",
	Guards: true, Tokens: true, NoCalls: true,
	Open: func(s Setup) (Acquirer, error) { return &rival{Setup: s}, nil },
}

//go:embed rival.lua
var rivalText string

var rivalScript = redis.NewScript(rivalText)

func (r *rival) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	_, err := r.take(ctx, n, 0, 0)
	return nil, err
}

func (r *rival) Take(ctx context.Context, input, output int) (Settle, error) {
	id, err := r.take(ctx, 1, input, output)
	return func(ctx context.Context, used int) error {
		return rivalScript.Run(ctx, r.Redis, []string{r.Name}, "adjust", id, used).Err()
	}, err
}

// take books a slot and sleeps until it comes.
func (r *rival) take(ctx context.Context, calls, input, output int) (id string, err error) {
	now := time.Now()
	id = r.Flow + "/" + strconv.FormatInt(r.ids.Add(1), 10)
	text, err := rivalScript.Run(ctx, r.Redis, []string{r.Name}, "take", id, now.UnixMicro(),
		r.Period().Microseconds(), calls, input, output,
		r.Quota.Permits, r.Input, r.Output).Text()
	if err != nil {
		return "", err
	}
	slot, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", err
	}
	return id, clock.Sleep(ctx, time.UnixMicro(slot).Sub(now))
}
