package soak

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// bed is what faults happen to.
type bed struct {
	server *redistest.Process
	proxy  *redistest.Proxy
	losses []loss
}

// fault is one kind of trouble, and how often it comes beside the others.
type fault struct {
	name   string
	weight int
	loses  bool // what Redis holds
	strike func(b *bed, rng *rand.Rand) error
}

var faults = []fault{
	{"replies lost, the connection stays", 6, false, lose(redistest.Unanswered)},
	{"connection cut before the command", 4, false, lose(redistest.Unsent)},
	{"connection cut in place of the reply", 4, false, lose(redistest.Cut)},
	{"connection cut within the reply", 4, false, lose(redistest.CutWithin)},
	{"all connections cut", 3, false, func(b *bed, _ *rand.Rand) error { b.proxy.Cut(); return nil }},
	{"all connections half closed", 3, false, func(b *bed, _ *rand.Rand) error { b.proxy.HalfClose(); return nil }},
	{"replies late, by up to 60 ms", 4, false, func(b *bed, rng *rand.Rand) error {
		b.proxy.Delay(time.Duration(1+rng.IntN(60)) * time.Millisecond)
		time.Sleep(between(rng, 100, 500))
		b.proxy.Delay(0)
		return nil
	}},
	{"nothing passes, up to 400 ms", 3, false, func(b *bed, rng *rand.Rand) error {
		b.proxy.Freeze()
		time.Sleep(between(rng, 50, 400))
		b.proxy.Heal()
		return nil
	}},
	{"server stopped, up to 600 ms", 3, false, func(b *bed, rng *rand.Rand) error {
		if err := b.server.Pause(); err != nil {
			return err
		}
		time.Sleep(between(rng, 50, 600))
		return b.server.Resume()
	}},
	{"SCRIPT FLUSH", 3, false, func(b *bed, _ *rand.Rand) error {
		return b.server.Client().ScriptFlush(context.Background()).Err()
	}},
	{"CLIENT KILL, all", 3, false, func(b *bed, _ *rand.Rand) error {
		return b.server.Client().ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "yes").Err()
	}},
	{"FLUSHALL", 1, true, func(b *bed, _ *rand.Rand) error {
		return b.forget(func() error { return b.server.Client().FlushAll(context.Background()).Err() })
	}},
	{"restart without persistence", 1, true, func(b *bed, _ *rand.Rand) error { return b.forget(b.server.Restart) }},
}

// forget notes when Redis loses what it holds.
func (b *bed) forget(do func() error) error {
	from := time.Now().UnixMicro()
	err := do()
	b.losses = append(b.losses, loss{from, time.Now().UnixMicro()})
	return err
}

func lose(how redistest.Loss) func(*bed, *rand.Rand) error {
	return func(b *bed, rng *rand.Rand) error {
		b.proxy.Lose(1+rng.IntN(4), "evalsha", how)
		return nil
	}
}

// pick draws one of them by its weight.
func pick(rng *rand.Rand) fault {
	var urn []fault
	for _, f := range faults {
		urn = append(urn, slices.Repeat([]fault{f}, f.weight)...)
	}
	return urn[rng.IntN(len(urn))]
}

func between(rng *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+rng.IntN(most-least)) * time.Millisecond
}
