package simulate

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// wires are a client's way to Redis and back: they take their time, and count.
type wires struct {
	world  *world
	client int
}

var _ redis.Hook = wires{}

func (w wires) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w wires) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.there(ctx, 1)
		defer w.back(ctx)
		return next(ctx, cmd)
	}
}

func (w wires) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && cmds[0].Name() == "hello" { // that of a new connection
			return next(ctx, cmds)
		}
		w.there(ctx, len(cmds))
		defer w.back(ctx)
		return next(ctx, cmds)
	}
}

func (w wires) there(ctx context.Context, commands int) {
	w.world.redisCalls.Add(int64(commands))
	w.world.instants.sleep(w.client, callerOf(ctx), asks, wire)
}

func (w wires) back(ctx context.Context) {
	w.world.instants.sleep(w.client, callerOf(ctx), hears, func(rng *rand.Rand) time.Duration {
		if held := w.world.scenario.Replies; held != nil {
			return wire(rng) + held.Draw(rng)
		}
		return wire(rng)
	})
}

// who is the key under which a ctx knows its caller. If a question has several
// callers, it is the first.
type who struct{}

func callerOf(ctx context.Context) int {
	caller, _ := ctx.Value(who{}).(int)
	return caller
}
