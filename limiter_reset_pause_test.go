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
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// pausedInAReset is a queue that is paused for an hour while a Reset is on its
// way. One caller slept, and done tells after how long it went.
func pausedInAReset(
	t *testing.T, hooks []redis.Hook, opts ...fairlimit.Option,
) (q *fairlimit.Queue, done <-chan time.Duration) {
	rdb := redistest.Mini(t).NewClient(t)
	q = queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Minute), opts...)
	require.NoError(t, q.Reset(t.Context())) // the script is loaded
	require.NoError(t, q.Wait(t.Context()))
	start, went := time.Now(), make(chan time.Duration, 1)
	go func() {
		assert.NoError(t, q.Wait(t.Context()))
		went <- time.Since(start)
	}()
	synctest.Wait()
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	reset := make(chan error, 1)
	go func() { reset <- q.Reset(t.Context()) }()
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, q.Pause(t.Context(), time.Hour))
	require.NoError(t, <-reset)
	return q, went
}

func TestAResetFreesNobodyFromALaterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way onTheWay
		way.back.Store(int64(300 * time.Millisecond))
		var f rateLimiter
		var lost atomic.Bool
		q, done := pausedInAReset(t, []redis.Hook{refuses{set: &lost}, &way}, fairlimit.WithFallback(&f))
		lost.Store(true)
		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed, "the pause holds the fallback")
		assert.Zero(t, f.permits.Load())
		lost.Store(false)
		assert.GreaterOrEqual(t, <-done, time.Hour)
	})
}

// The pause is sent later than the Reset, and Redis records it before.
func TestAResetFreesThoseWhosePauseItForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way onTheWay
		way.there.Store(int64(300 * time.Millisecond))
		_, done := pausedInAReset(t, []redis.Hook{&way})
		assert.Equal(t, 300*time.Millisecond, <-done)
	})
}

// outspoken is an engine that cannot be steered, and tells news of a pause.
type outspoken struct {
	*stub
	heard func(*engine.News)
}

func (e *outspoken) Reset(context.Context) error {
	asked := time.Now()
	time.Sleep(time.Millisecond)
	e.heard(&engine.News{Asked: asked.Add(time.Microsecond), Arrived: time.Now(), Queue: "q", Stands: time.Hour})
	return nil
}

func TestAResetAsksNothingMoreOfAnEngineThatCannotBeSteered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := func(c engine.Config) (engine.Engine, error) {
			return &outspoken{&stub{queues: true}, c.Heard}, nil
		}
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build))
		require.NoError(t, err)
		require.NoError(t, l.Reset(t.Context()))
	})
}
