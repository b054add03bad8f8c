package engines

import (
	"cmp"
	"context"
	_ "embed"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

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
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		return &bullmq{rdb: rdb, name: name, load: l, now: now, queue: make(queue, 1)}, nil
	},
}

//go:embed bullmq.lua
var bullmqText string

var bullmqScript = redis.NewScript(bullmqText)

type bullmq struct {
	rdb   redis.UniversalClient
	name  string
	load  scenario.Load
	now   func() time.Duration
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
	return poll(ctx, 1, b.now, func() (bool, time.Duration, error) {
		wait, err := bullmqScript.Run(ctx, b.rdb, []string{b.name, b.name + ":groups"},
			cmp.Or(b.load.Flow, "a client"), b.jobs.Load(), b.load.Quota.Permits, b.load.Quota.Per.Milliseconds(),
			b.load.Ceiling.Permits, b.load.Ceiling.Per.Milliseconds()).Int64()
		return wait == 0, time.Duration(wait) * time.Millisecond, err
	})
}
