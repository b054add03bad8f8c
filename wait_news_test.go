package fairlimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// holds lets answers stay on their way for so long.
type holds struct{ answers *atomic.Int64 }

func (h holds) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h holds) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		time.Sleep(time.Duration(h.answers.Swap(0)))
		return err
	}
}

func (h holds) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestATurnThatIsDueAtOnceIsTakenOnNewNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb, name := m.NewClient(t), redistest.Name(t)
		var late atomic.Int64
		rdb.AddHook(holds{&late})
		one, other := queueOf(t, rdb, name, fairlimit.PerSecond(5)), queueOf(t, m.Client, name, fairlimit.PerSecond(5))
		require.NoError(t, one.Wait(t.Context()))
		late.Store(int64(3 * time.Second))
		start, went := time.Now(), make(chan time.Duration)
		go func() {
			assert.NoError(t, one.Wait(t.Context()))
			went <- time.Since(start)
		}()
		time.Sleep(time.Second)
		require.NoError(t, other.Pause(t.Context(), 10*time.Second))
		require.GreaterOrEqual(t, <-went, 11*time.Second, "the pause began while the answer was on its way")
	})
}
