package window_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
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
				rdb.AddHook(editedScripts(countingFew))
				l := newLimiter(t, rdb, 22, 8*time.Second)
				l.fill(11, 1)
				time.Sleep(4 * time.Second)
				l.fill(5, 2)
				time.Sleep(4*time.Second + time.Millisecond)
				runs := 0
				rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
					if cmd.Name() == "eval" || cmd.Name() == "evalsha" {
						if runs++; runs == 3 {
							write(l)
						}
					}
					return next(ctx, cmd)
				}))
				got := l.available()
				require.GreaterOrEqual(t, runs, 3)

				all := redisson{l}.held("+inf")
				lapsed := redisson{l}.held(l.serverTime() - 8_000)
				require.Equal(t, 22-(all-lapsed), got)
			})
		})
	}
}
