package window_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A reader takes several runs here, and others write in between.
func TestReadersAreExactBesideWriters(t *testing.T) {
	writes := map[string]func(l *limiter){
		"nobody":                func(*limiter) {},
		"a question":            func(l *limiter) { require.True(l.t, l.allowed(3)) },
		"a release":             func(l *limiter) { require.NoError(l.t, l.Release(l.t.Context(), 13)) },
		"Redisson":              func(l *limiter) { redisson{l}.mustAcquire(4, l.serverTime()) },
		"a release by Redisson": func(l *limiter) { redisson{l}.release(5) },
		"a Reset":               func(l *limiter) { require.NoError(l.t, l.Reset(l.t.Context())) },
		"time": func(l *limiter) {
			time.Sleep(4 * time.Second) // a run may take five
		},
	}
	for who, write := range writes {
		t.Run(who, func(t *testing.T) {
			each(t, func(t *testing.T, rdb redis.UniversalClient) {
				rdb.AddHook(editedScripts{countingFew})
				l := newLimiter(t, rdb, 22, 8*time.Second)
				l.fill(11, 1)
				time.Sleep(4 * time.Second)
				l.fill(5, 2)
				time.Sleep(4*time.Second + time.Millisecond)
				beside := &between{run: 3, do: func() { write(l) }}
				rdb.AddHook(beside)
				got := l.available()
				require.GreaterOrEqual(t, beside.runs, 3)

				all := redisson{l}.held("+inf")
				lapsed := redisson{l}.held(l.serverTime() - 8_000)
				require.Equal(t, 22-(all-lapsed), got)
			})
		})
	}
}

// between does something once, before the given run of a script.
type between struct {
	do        func()
	run, runs int
}

func (*between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" || cmd.Name() == "evalsha" {
			if b.runs++; b.runs == b.run {
				b.do()
			}
		}
		return next(ctx, cmd)
	}
}
