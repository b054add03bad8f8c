package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Hook stands between a client and its server for one command at a time.
type Hook func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

var _ redis.Hook = Hook(nil)

// DialHook changes nothing.
func (h Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook calls the hook in place of the command.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h(ctx, cmd, next) }
}

// ProcessPipelineHook changes nothing.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
