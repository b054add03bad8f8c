package speed

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/engine"
)

// bytesRows are what a crowded queue takes up at most, and what a grant of it
// writes.
func bytesRows() (rows []row) {
	for n := range crowded {
		s := scene{quotas: crowded[:n+1], first: crowd}
		rows = append(rows, bytesRow(fmt.Sprintf("crowded, windows: %d", n+1), s))
	}
	lost := scene{quotas: crowded, first: crowd, before: afterLoss, turn: queued}
	return append(rows, bytesRow("crowded, windows: 4, after a loss", lost))
}

func bytesRow(what string, s scene) row {
	figures := []wanted{{"state, ", "bytes", oursAtMost(3600)}, {"replicated a grant, ", "bytes", oursAtMost(250)}}
	return row{
		"bytes", what, redisRate, 0, figures,
		func(ctx context.Context, b *bed) (sides, error) {
			q, err := b.queue(ctx, s)
			if err != nil {
				return sides{}, err
			}
			peer := b.name("peer")
			allow := b.peer(peer, atOnce)
			return sides{
				b.bytes("rate:"+peer, nothing, func(ctx context.Context) error { return allow(ctx, 0) }),
				b.bytes(q.key(), q.ready, q.grant),
			}, nil
		},
	}
}

// bytes are the most that the key's value has, and what a grant adds to what
// goes to replicas. As much goes to an append-only file.
func (b *bed) bytes(key string, ready, grant call) probe {
	return func(ctx context.Context) ([]float64, error) {
		if err := cmp.Or(ready(ctx), b.replicate(ctx)); err != nil {
			return nil, err
		}
		before, err := b.offset(ctx)
		if err != nil {
			return nil, err
		}
		grants := 5 * b.Calls // as many as need all cells once
		var most int64
		err = paced(ctx, grants, 0, func(ctx context.Context) error {
			if err := grant(ctx); err != nil {
				return err
			}
			size, err := b.rdb.StrLen(ctx, key).Result()
			most = max(most, size)
			return err
		})
		if err != nil {
			return nil, err
		}
		after, err := b.offset(ctx)
		return []float64{float64(most), (after - before) / float64(grants)}, err
	}
}

// replicate has the server count what a replica would be sent. It begins once a
// replica asks; this one leaves before it is answered.
func (b *bed) replicate(ctx context.Context) error {
	options := *b.rdb.Options()
	options.ReadTimeout, options.MaxRetries = 50*time.Millisecond, -1
	replica := redis.NewClient(&options)
	defer replica.Close()
	_ = replica.Do(ctx, "psync", "?", "-1").Err()
	info, err := b.rdb.InfoMap(ctx, "replication").Result()
	if err == nil && info["Replication"]["repl_backlog_active"] != "1" {
		err = fmt.Errorf("%w: no replication", backend.ErrUncounted)
	}
	return err
}

func (b *bed) offset(ctx context.Context) (float64, error) {
	info, err := b.rdb.InfoMap(ctx, "replication").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info["Replication"]["master_repl_offset"], 64)
}

// longestRows are the longest runs of a script that a question of many callers,
// or the return of many turns, takes.
func longestRows() []row {
	of := func(what string, quotas []engine.Quota, permit func() int, back bool) row {
		return row{
			"longest", "server, longest run: " + what, "", 1, one("µs", oursAtMost(1000)),
			func(ctx context.Context, b *bed) (sides, error) {
				t := &timer{bed: b}
				q, err := b.queue(ctx, scene{quotas: quotas}, t)
				return sides{ours: single(func(ctx context.Context) (float64, error) {
					return t.longest(ctx, q, permit, back)
				})}, err
			},
		}
	}
	n := 0
	varied := func() int { n++; return 1 + n%7 }
	return []row{
		of("1,000 callers alike, 1 window", secondly, always(1), false),
		of("1,000 callers for 1 to 7 permits, 1 window", secondly, varied, false),
		of("1,000 callers alike, 8 windows", eight, always(1), false),
		of("1,000 callers for 1 to 7 permits, 8 windows", eight, varied, false),
		of("200 returns, 1 window", secondly, always(1), true),
		of("200 returns, 8 windows", eight, varied, true),
	}
}

// longest is the longest run in a question of a thousand callers, or if turns go
// back in the return of every fifth of them.
func (t *timer) longest(ctx context.Context, q *queue, permit func() int, back bool) (float64, error) {
	t.most = 0
	taken, err := q.take(ctx, permits(1000, permit)...)
	if err == nil && back {
		t.most = 0
		err = q.engines[0].GiveBack(ctx, everyNth(taken, 5))
	}
	return t.most, err
}

// timer keeps what the longest run of a script took the server.
type timer struct {
	*bed
	most float64
}

var _ redis.Hook = (*timer)(nil)

func (t *timer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *timer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (t *timer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (ran error) {
		if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		micros, err := t.micros(ctx, func() error { ran = next(ctx, cmd); return nil })
		t.most = max(t.most, micros)
		return cmp.Or(ran, err)
	}
}
