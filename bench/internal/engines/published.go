package engines

import (
	"cmp"
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/bench/internal/metrics"
)

//go:embed published.lua
var publishedSource string

var publishedScript = redis.NewScript(publishedSource)

var publishedEngine = Engine{
	Name: "published",
	About: "the script that the idea of fair comes from, with its faults: " +
		"bursts overtake, its clock drifts, errors let through",
	Queues: true,
	Bursts: true,
	Open: func(rdb redis.UniversalClient, name string, l load.Load, now func() time.Duration) (Acquirer, error) {
		q := l.Quota
		return &published{
			rdb: rdb, key: publishedKey(name), now: now,
			limit: cmp.Or(q.Burst, q.Permits),
			// The script counts whole milliseconds; the rest is cut off.
			interval: max(1, (q.Per / time.Duration(q.Permits)).Milliseconds()),
		}, nil
	},
	Keys: func(name string) []string { return []string{publishedKey(name)} },
}

func publishedKey(name string) string { return "published:{" + name + "}" }

// published asks and sleeps, and tells nobody when it leaves.
type published struct {
	rdb      redis.UniversalClient
	key      string
	limit    int
	interval int64
	now      func() time.Duration
}

// noTimeout is a wait, in milliseconds, that nobody is told.
const noTimeout = 1 << 40

// Acquire asks for one permit after the other, since the script knows no more.
func (p *published) Acquire(ctx context.Context, _, n int) (turn *metrics.Turn, err error) {
	for range n {
		if turn, err = p.one(ctx); err != nil {
			return nil, err
		}
	}
	return turn, nil
}

func (p *published) one(ctx context.Context) (*metrics.Turn, error) {
	timeout := int64(noTimeout)
	if deadline, has := ctx.Deadline(); has {
		timeout = time.Until(deadline).Milliseconds()
	}
	sent := p.now()
	ms, err := publishedScript.Run(ctx, p.rdb, []string{p.key}, p.limit, p.interval, timeout).Int64()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, nil // an error is taken for leave to go
	case ms > 0 && ms >= timeout:
		return nil, ErrRefused
	}
	turn := &metrics.Turn{Sent: sent, Replied: p.now(), Wait: time.Duration(ms) * time.Millisecond}
	return turn, doze(ctx, turn.Wait)
}
