package serve

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// InFlight is a hook that counts the commands that Redis has not answered yet. A
// process that ends before they are leaves turns behind that pass unused.
type InFlight struct {
	count atomic.Int64
	lost  atomic.Bool // the answer of one did not come
}

// Settle returns when no command is under way any more, or after d, and reports
// whether Redis has answered all. What an answer leads to is sent at once: a turn
// that nobody waits for any more is given back.
func (f *InFlight) Settle(d time.Duration) bool {
	quiet := 0
	for end := time.Now().Add(d); quiet < 3 && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		quiet++
		if f.count.Load() > 0 {
			quiet = 0
		}
	}
	return f.count.Load() == 0 && !f.lost.Load()
}

func (f *InFlight) during(command func() error) error {
	f.count.Add(1)
	defer f.count.Add(-1)
	err := command()
	if err != nil && !errors.As(err, new(redis.Error)) {
		f.lost.Store(true)
	}
	return err
}

// DialHook, ProcessHook and ProcessPipelineHook are those of [redis.Hook].
func (f *InFlight) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *InFlight) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.during(func() error { return next(ctx, cmd) })
	}
}

func (f *InFlight) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.during(func() error { return next(ctx, cmds) })
	}
}
