package fairlimit_test

import (
	"context"
	"errors"
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

// onTheWay holds up the next command, on its way there or back, and fails all
// once the connection is lost.
type onTheWay struct {
	there, back atomic.Int64
	lost        atomic.Bool
}

func (o *onTheWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if o.lost.Load() {
			cmd.SetErr(errors.New("lost"))
			return cmd.Err()
		}
		there, back := o.there.Swap(0), o.back.Swap(0)
		time.Sleep(time.Duration(there))
		err := next(ctx, cmd)
		time.Sleep(time.Duration(back))
		return err
	}
}

func (o *onTheWay) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *onTheWay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// pausedInAReset is a queue that is paused for an hour while a Reset is on its
// way. One caller slept, and done tells after how long it went.
func pausedInAReset(
	t *testing.T, way *onTheWay, opts ...fairlimit.Option,
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
	rdb.AddHook(way)
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
		q, done := pausedInAReset(t, &way, fairlimit.WithFallback(&f))
		way.lost.Store(true)
		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed, "the pause holds the fallback")
		assert.Zero(t, f.permits.Load())
		way.lost.Store(false)
		assert.GreaterOrEqual(t, <-done, time.Hour)
	})
}

// The pause is sent later than the Reset, and Redis records it before.
func TestAResetFreesThoseWhosePauseItForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way onTheWay
		way.there.Store(int64(300 * time.Millisecond))
		_, done := pausedInAReset(t, &way)
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
