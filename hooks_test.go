package fairlimit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// commands is the part of a hook that is not about single commands: it passes
// everything on.
type commands struct{}

func (commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// late holds up every answer.
type late struct {
	commands
	by time.Duration
}

func (l late) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		time.Sleep(l.by)
		return err
	}
}

// onTheWay holds up the next command, on its way there or back.
type onTheWay struct {
	commands
	there, back atomic.Int64
}

func (o *onTheWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		there, back := o.there.Swap(0), o.back.Swap(0)
		time.Sleep(time.Duration(there))
		err := next(ctx, cmd)
		time.Sleep(time.Duration(back))
		return err
	}
}

// refuses fails what is asked while it is set.
type refuses struct {
	commands
	set *atomic.Bool
}

func (r refuses) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.set.Load() {
			cmd.SetErr(errors.New("refused"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}
