package fair

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// asked counts the scripts that a client runs.
type asked struct{ atomic.Int64 }

func (a *asked) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *asked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *asked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			a.Add(1)
		}
		return next(ctx, cmd)
	}
}

// The first decision after a change obeys it, for one more question a process.
func TestAChangeOfQuotasCostsEachProcessOneQuestion(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartServer(t).Client()
	f := build(t, rdb, engine.Quota{Permits: 1, Per: time.Hour})
	one, other := f.looksFor(t, quotas(t, "3/1h")...), f.looksFor(t, quotas(t, "3/1h")...)
	queued(t, one, 1, 1)
	count := &asked{}
	rdb.AddHook(count)
	queued(t, one, 1, 1)
	queued(t, other, 1, 1)
	require.EqualValues(t, 2, count.Swap(0), "nothing is stored")
	set(t, one, "4/1h")
	count.Store(0)
	for i, process := range []*fair{one, other} {
		granted := take(t, process, engine.Request{N: 1})[0].Granted
		require.Equal(t, i == 0, granted, "the new quota has one permit more")
		require.EqualValues(t, 1+i, count.Swap(0), "the first has stored it")
		require.False(t, take(t, process, engine.Request{N: 1})[0].Granted)
		require.EqualValues(t, 1, count.Swap(0), "from then on it costs nothing more")
	}
}
