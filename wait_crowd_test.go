package fairlimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestACrowdWithDeadlinesIsCarriedAFewTimes has all callers come at one moment,
// each with a deadline of its own.
func TestACrowdWithDeadlinesIsCarriedAFewTimes(t *testing.T) {
	const crowd = 2000
	for name, deadline := range map[string]func(i int) time.Duration{
		"later ones have more time": func(i int) time.Duration { return 2*time.Second + time.Duration(i)*time.Microsecond },
		"later ones have less time": func(i int) time.Duration { return 2*time.Second - time.Duration(i)*time.Microsecond },
		"some are granted":          func(i int) time.Duration { return time.Duration(i*37%crowd) * 50 * time.Millisecond },
		"all are granted":           func(i int) time.Duration { return time.Hour + time.Duration(i)*time.Microsecond },
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				const roundTrip = 10 * time.Millisecond
				var mu sync.Mutex
				questions, carried := 0, 0
				asked := func(op string, callers int, _ time.Duration, _ error) {
					mu.Lock()
					defer mu.Unlock()
					if op == "take" {
						questions, carried = questions+1, carried+callers
					}
				}
				rdb.AddHook(distant(roundTrip))
				l, err := fairlimit.New(rdb, "crowd", fairlimit.PerSecond(10), fairlimit.WithTrace(&fairlimit.Trace{Asked: asked}))
				require.NoError(t, err)
				var all sync.WaitGroup
				worst, refused := time.Duration(0), 0
				for i := range crowd {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), deadline(i))
						defer cancel()
						start := time.Now()
						err := l.Wait(ctx)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							refused++
							worst = max(worst, time.Since(start))
						}
					})
					synctest.Wait()
				}
				all.Wait()
				t.Logf("%d questions carried %d, %d were refused within %v", questions, carried, refused, worst)
				assert.LessOrEqual(t, carried, 3*crowd)
			})
		})
	}
}

// distant is a client whose questions take a while.
type distant time.Duration

func (d distant) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d distant) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(time.Duration(d))
		return next(ctx, cmd)
	}
}

func (d distant) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
