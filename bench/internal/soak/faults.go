package soak

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// bed is what faults happen to.
type bed struct {
	server redistest.Process
	proxy  *redistest.Proxy
	losses []loss
}

// fault is one kind of trouble, and how often it comes beside the others.
type fault struct {
	name   string
	weight int
	loses  bool // what Redis holds
	strike func(ctx context.Context, b *bed, rng *rand.Rand) error
}

var faults = []fault{
	{name: "replies lost, the connection stays", weight: 6, strike: lose(redistest.Unanswered)},
	{name: "connection cut before the command", weight: 4, strike: lose(redistest.Unsent)},
	{name: "connection cut in place of the reply", weight: 4, strike: lose(redistest.Cut)},
	{name: "connection cut within the reply", weight: 4, strike: lose(redistest.CutWithin)},
	{name: "all connections cut", weight: 3, strike: func(_ context.Context, b *bed, _ *rand.Rand) error {
		b.proxy.Cut()
		return nil
	}},
	{name: "all connections half closed", weight: 3, strike: func(_ context.Context, b *bed, _ *rand.Rand) error {
		b.proxy.HalfClose()
		return nil
	}},
	{name: "replies late, by up to 60 ms", weight: 4, strike: func(ctx context.Context, b *bed, rng *rand.Rand) error {
		b.proxy.Delay(time.Duration(1+rng.IntN(60)) * time.Millisecond)
		_ = clock.Sleep(ctx, between(rng, 100, 500))
		b.proxy.Delay(0)
		return nil
	}},
	{name: "nothing passes, up to 400 ms", weight: 3, strike: func(ctx context.Context, b *bed, rng *rand.Rand) error {
		b.proxy.Freeze()
		_ = clock.Sleep(ctx, between(rng, 50, 400))
		b.proxy.Heal()
		return nil
	}},
	{name: "server stopped, up to 600 ms", weight: 3, strike: func(ctx context.Context, b *bed, rng *rand.Rand) error {
		if err := b.server.Pause(); err != nil {
			return err
		}
		_ = clock.Sleep(ctx, between(rng, 50, 600))
		return b.server.Resume()
	}},
	{name: "SCRIPT FLUSH", weight: 3, strike: func(ctx context.Context, b *bed, _ *rand.Rand) error {
		return b.server.Client().ScriptFlush(ctx).Err()
	}},
	{name: "CLIENT KILL, all", weight: 3, strike: func(ctx context.Context, b *bed, _ *rand.Rand) error {
		return b.server.Client().ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err()
	}},
	{name: "FLUSHALL", weight: 1, loses: true, strike: func(ctx context.Context, b *bed, _ *rand.Rand) error {
		return b.forget(func() error { return b.server.Client().FlushAll(ctx).Err() })
	}},
	{
		name: "restart without persistence", weight: 1, loses: true,
		strike: func(_ context.Context, b *bed, _ *rand.Rand) error {
			return b.forget(b.server.Restart)
		},
	},
}

// forget notes when Redis loses what it holds.
func (b *bed) forget(do func() error) error {
	from := time.Now().UnixMicro()
	err := do()
	b.losses = append(b.losses, loss{from, time.Now().UnixMicro()})
	return err
}

func lose(how redistest.Loss) func(context.Context, *bed, *rand.Rand) error {
	return func(_ context.Context, b *bed, rng *rand.Rand) error {
		b.proxy.Lose(1+rng.IntN(4), "evalsha", how)
		return nil
	}
}

// pick draws one of them by its weight.
func pick(rng *rand.Rand) fault {
	all := 0
	for _, f := range faults {
		all += f.weight
	}
	at := rng.IntN(all)
	for _, f := range faults {
		if at -= f.weight; at < 0 {
			return f
		}
	}
	panic("soak: no fault has any weight")
}

func between(rng *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+rng.IntN(most-least)) * time.Millisecond
}
