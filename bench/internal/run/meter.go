package run

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// meter counts the commands that this process sends, for servers that do not
// count them.
type meter struct{ sent atomic.Int64 }

var _ redis.Hook = (*meter)(nil)

func (m *meter) count() int { return int(m.sent.Load()) }

func (m *meter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.sent.Add(1)
		return next(ctx, cmd)
	}
}

func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		m.sent.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
