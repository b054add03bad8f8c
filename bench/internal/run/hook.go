package run

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Hook does something around commands that a client sends. It sends them by
// send, and returns what came of it.
type Hook func(ctx context.Context, commands []redis.Cmder, send func() error) error

var _ redis.Hook = Hook(nil)

// DialHook leaves connecting as it is.
func (h Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is around one command.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook is around several.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}
